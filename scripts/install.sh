#!/usr/bin/env bash
# Install a built program with its man pages and completions below a prefix. `make install` runs it.
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
echo "installed in $prefix: bin/vsetrain, man pages, completions for bash, zsh and fish"
