package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// mutant is a mistake behind a switch.
type mutant struct {
	pkg                    *goPackage
	file, function, change string
	line, twin             int // twin: number of earlier mutants that differ only in their place
	from, operator, to     int // the range that is switched, and the operator in it
	was                    string
	forms                  []form
}

// form is a way to write a switch: text before, in place of the operator, and after. # is the number of the switch.
type form struct{ before, operator, behind string }

// id identifies a mutant in known.txt and in logs, without its line, which moves.
func (m *mutant) id() string {
	if m.twin > 0 {
		return fmt.Sprintf("%s %s (%d): %s", m.file, m.function, m.twin, m.change)
	}
	return m.file + " " + m.function + ": " + m.change
}

// switchesPath is the package that mutants import; it has no mutants itself.
const switchesPath = "vsetrain/lab/mutants/switches"

// negated is a condition, or its opposite. The operator stays.
var negated = form{"(switches.On(#) != (", "", "))"}

// swaps are the operators that replace each other.
var swaps = map[token.Token]struct {
	by token.Token
	form
}{
	token.LSS: {token.LEQ, form{"switches.Less(#, ", ",", ")"}},
	token.LEQ: {token.LSS, form{"switches.LessEqual(#, ", ",", ")"}},
	token.GTR: {token.GEQ, form{"switches.Greater(#, ", ",", ")"}},
	token.GEQ: {token.GTR, form{"switches.GreaterEqual(#, ", ",", ")"}},
	token.ADD: {token.SUB, form{"switches.Add(#, ", ",", ")"}},
	token.SUB: {token.ADD, form{"switches.Sub(#, ", ",", ")"}},
	token.MUL: {token.QUO, form{"switches.Mul(#, ", ",", ")"}},
	token.QUO: {token.MUL, form{"switches.Quo(#, ", ",", ")"}},
	token.EQL: {token.NEQ, negated},
	token.NEQ: {token.EQL, negated},
	// by De Morgan's law: the right side is evaluated only if it must be
	token.LAND: {token.LOR, form{negated.before + negated.before, ")) && (switches.On(#) != (", "))))"}},
	token.LOR:  {token.LAND, form{negated.before + negated.before, ")) || (switches.On(#) != (", "))))"}},
	// the left side follows, which determines the type of a constant
	token.ADD_ASSIGN: {token.SUB_ASSIGN, form{"", "+= switches.Neg(#,", ", "}},
	token.SUB_ASSIGN: {token.ADD_ASSIGN, form{"", "-= switches.Neg(#,", ", "}},
}

// integer adds a number with the type that the context gives to a constant. Anything but an integer needs a float.
var integer = []form{{"(", "", "+1<<switches.Bit(#)>>1)"}, {"(", "", "+float64(switches.Bit(#)))"},
	{"(", "", "+float32(switches.Bit(#)))"}}

// mutants returns the mutants of all functions in the packages that are not generated.
func mutants(root string, pkgs []*goPackage) ([]*mutant, error) {
	var all []*mutant
	twins := map[string]int{}
	for _, p := range pkgs {
		for _, name := range p.GoFiles {
			path, files := filepath.Join(p.Dir, name), token.NewFileSet()
			source, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			f, err := parser.ParseFile(files, path, source, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			inner, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			text := func(from, to token.Pos) string {
				return string(source[files.Position(from).Offset:files.Position(to).Offset])
			}
			for _, d := range f.Decls {
				function, ok := d.(*ast.FuncDecl)
				if !ok || function.Body == nil || ast.IsGenerated(f) || p.ImportPath == switchesPath {
					continue
				}
				add := func(n ast.Node, operator token.Pos, was, becomes string, forms ...form) {
					at := files.Position(operator)
					m := &mutant{pkg: p, file: filepath.ToSlash(inner), function: function.Name.Name, line: at.Line,
						change: strings.Join(strings.Fields(was+" -> "+becomes), " "), was: was, operator: at.Offset,
						from: files.Position(n.Pos()).Offset, to: files.Position(n.End()).Offset, forms: forms}
					id := m.id()
					m.twin = twins[id]
					twins[id]++
					all = append(all, m)
				}
				ast.Inspect(function.Body, func(n ast.Node) bool {
					places(n, text, add)
					return true
				})
			}
		}
	}
	return all, nil
}

// places adds the mutant of a node, if it has one.
func places(n ast.Node, text func(from, to token.Pos) string,
	add func(n ast.Node, operator token.Pos, was, becomes string, forms ...form)) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if s, ok := swaps[n.Op]; ok {
			add(n, n.OpPos, n.Op.String(), s.by.String(), s.form)
		}
	case *ast.AssignStmt:
		if s, ok := swaps[n.Tok]; ok {
			s.behind += text(n.Lhs[0].Pos(), n.Lhs[0].End()) + ")"
			add(n, n.TokPos, n.Tok.String(), s.by.String(), s.form)
		}
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); err == nil {
			add(n, n.Pos(), n.Value, strconv.Itoa(v+1), integer...)
		}
	case *ast.IfStmt:
		cond := text(n.Cond.Pos(), n.Cond.End())
		add(n.Cond, n.Cond.Pos(), cond, "!("+cond+")", negated)
	case *ast.ExprStmt:
		add(n, n.Pos(), text(n.Pos(), n.End()), "", form{"if !switches.On(#) { ", "", " }"})
	}
}

// plant writes the mutants of a file into its source, each behind the switch of its number.
func plant(source []byte, all map[int]*mutant) ([]byte, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	before, operator, behind := map[int]string{}, map[int]string{}, map[int]string{}
	behind[int(f.Name.End())-1] = `; import "` + switchesPath + `"`
	skip := make([]int, len(source)+1)
	for _, i := range slices.SortedFunc(maps.Keys(all), func(i, j int) int { // outer ones before inner ones
		return cmp.Or(all[i].from-all[j].from, all[j].to-all[i].to, i-j)
	}) {
		m, number := all[i], func(s string) string { return strings.ReplaceAll(s, "#", strconv.Itoa(i)) }
		before[m.from] += number(m.forms[0].before)
		behind[m.to] = number(m.forms[0].behind) + behind[m.to]
		if s := m.forms[0].operator; s != "" {
			operator[m.operator], skip[m.operator] = number(s), len(m.was)
		}
	}
	var out bytes.Buffer
	for at := range len(source) {
		out.WriteString(behind[at] + operator[at] + before[at])
		if skip[at] == 0 {
			out.WriteByte(source[at])
		} else {
			skip[at+1] = max(skip[at+1], skip[at]-1)
		}
	}
	return out.Bytes(), nil
}

// compiles drops the forms of a switch before the first one that compiles. If none does, as in the length of an array,
// the mutant cannot be switched.
func (m *mutant) compiles(importer types.Importer) (bool, error) {
	for ; len(m.forms) > 0; m.forms = m.forms[1:] {
		var sources []*ast.File
		var broken error
		files := token.NewFileSet()
		for _, name := range m.pkg.GoFiles {
			source, err := os.ReadFile(filepath.Join(m.pkg.Dir, name))
			if err == nil && name == filepath.Base(m.file) {
				source, err = plant(source, map[int]*mutant{0: m})
			}
			if err != nil {
				return false, err
			}
			f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
			sources, broken = append(sources, f), errors.Join(broken, err)
		}
		if broken == nil {
			check := types.Config{Importer: importer, Sizes: types.SizesFor("gc", runtime.GOARCH)}
			_, broken = check.Check(m.pkg.ImportPath, files, sources, nil)
		}
		if broken == nil {
			return true, nil
		}
	}
	return false, nil
}
