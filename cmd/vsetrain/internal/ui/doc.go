// Package ui writes for people: colours, tables and progress bars on a terminal, plain lines everywhere else.
package ui
