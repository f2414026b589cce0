#!/usr/bin/env bash
# Install a built program with its man pages, completions and licences below a prefix. `make install` runs it.
#
#   scripts/install.sh bin/vsetrain /usr/local
set -euo pipefail

program=${1:?the program}
prefix=${2:?the prefix, such as /usr/local}
umask 022
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$program" man --dir "$made/man" >/dev/null
for shell in bash zsh fish; do
  "$program" completion "$shell" >"$made/$shell"
done
install -D -m 755 "$program" "$prefix/bin/vsetrain"
for page in "$made"/man/*.1; do
  install -D -m 644 "$page" "$prefix/share/man/man1/${page##*/}"
done
install -D -m 644 "$made/bash" "$prefix/share/bash-completion/completions/vsetrain"
install -D -m 644 "$made/zsh" "$prefix/share/zsh/site-functions/_vsetrain"
install -D -m 644 "$made/fish" "$prefix/share/fish/vendor_completions.d/vsetrain.fish"
# The pages, and the script that they name.
doc=$prefix/share/doc/vsetrain
find README.md CHANGELOG.md docs scripts/torch_backbone_to_onnx.py -type f \
  \( -name '*.md' -o -name '*.svg' -o -name '*.png' -o -name '*.json' -o -name '*.ipynb' -o -name '*.py' \) |
  while read -r page; do
    install -D -m 644 "$page" "$doc/$page"
  done
# The licences of the program, and those of Go and of the modules that are linked into it, which ask for that: on this
# system, or on all SYSTEMS.
install -D -m 644 LICENSE "$doc/LICENSE"
install -D -m 644 NOTICE "$doc/NOTICE"
go=${GO:-go}
licences() { # MODULE@VERSION FOLDER DEPTH
  local found=0 file
  while read -r file; do
    install -D -m 644 "$file" "$doc/licences/$1/${file#"$2"/}"
    found=1
  done < <(find "$2" -maxdepth "$3" -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \
    -o -iname 'patents*' -o -iname 'unlicense*' -o -ipath '*licen[cs]es/*' \) ! -name '*.go' ! -path '*/testdata/*' | sort)
  [ $found = 1 ] || { echo "no licence of $1 in $2" >&2; return 1; }
}
licences "std@$("$go" env GOVERSION)" "$("$go" env GOROOT)" 1
for system in ${SYSTEMS:-$("$go" env GOOS)}; do
  GOOS=$system "$go" list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/vsetrain
done | sort -u | while read -r module dir; do
  licences "$module" "$dir" 9
done
echo "installed in $prefix: bin/vsetrain, man pages, completions for bash, zsh and fish, pages, licences"
