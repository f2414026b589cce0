package ui

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	escapes = regexp.MustCompile(own + `\[[0-9;]*m`)
	label   = regexp.MustCompile(`^ *\S+( \S+)?  +`) // "data wait   ", before a text
	command = regexp.MustCompile(`(^|[ '(])vsetrain `)
)

// fold breaks the lines of a text that are wider than the terminal. The rest of a line is indented to the text after a
// label, or else by two more columns.
func fold(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = foldLine(l, width)
	}
	return strings.Join(lines, "\n")
}

func foldLine(line string, width int) string {
	plain := escapes.ReplaceAllString(line, "")
	indent := len(plain) - len(strings.TrimLeft(plain, " "))
	if indent < 9 { // else it is below a text after a label
		indent += 2
	}
	if n := columnsOf(label.FindString(plain)); n > 0 && n <= 20 {
		indent = n
	}
	var b strings.Builder
	for room := width; room > 20 && columnsOf(line) > room; room = width - indent {
		at := breakAt(line, room)
		if at == 0 {
			break
		}
		b.WriteString(line[:at] + "\n" + strings.Repeat(" ", indent))
		line = strings.TrimLeft(line[at:], " ")
	}
	return b.String() + line
}

// breakAt returns the index of the space at which to break a line for a number of columns, 0 if there is none. It
// prefers the end of a clause that fills two thirds of the columns. A command line stays whole, for copying.
func breakAt(line string, room int) int {
	end := len(line)
	if at := command.FindStringIndex(line); at != nil {
		end = at[1] - len("vsetrain ")
	}
	last, clause := 0, 0
	for i := 1; i < end; i++ {
		if line[i] != ' ' || line[i-1] == ' ' {
			continue
		}
		if columnsOf(line[:i]) > room {
			break
		}
		if last = i; strings.ContainsRune(",;:", rune(line[i-1])) {
			clause = i
		}
	}
	if columnsOf(line[:clause]) > room*2/3 {
		return clause
	}
	return last
}

// columnsOf returns the number of columns that a text takes, without its escape sequences.
func columnsOf(text string) int { return utf8.RuneCountInString(escapes.ReplaceAllString(text, "")) }
