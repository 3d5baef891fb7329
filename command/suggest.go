package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/cli"

	"github.com/open-nomad/open-nomad/command/term"
)

// unknown returns the line about an unknown command in args, "" if the command is known. Only commands
// that the help lists are suggested.
func unknown(args []string, factories map[string]cli.CommandFactory, hidden []string) string {
	group := ""
	for _, word := range args {
		if strings.HasPrefix(word, "-") {
			return ""
		}
		name := strings.TrimSpace(group + " " + word)
		if _, ok := factories[name]; ok {
			group = name
			continue
		}
		if f, ok := factories[group]; ok && group != "" {
			if c, err := f(); err != nil || !isGroup(c) {
				return "" // word is an argument
			}
		}
		line := fmt.Sprintf("Unknown command: nomad %s", term.Cell(name))
		if similar := term.Nearest(word, below(group, factories, hidden)); similar != "" {
			line += fmt.Sprintf("\nDid you mean: nomad %s", strings.TrimSpace(group+" "+similar))
		}
		return line
	}
	return ""
}

func isGroup(c cli.Command) bool {
	_, ok := c.(groupCommand)
	return ok
}

// below returns the words that may follow a group.
func below(group string, factories map[string]cli.CommandFactory, hidden []string) []string {
	var words []string
	for name := range factories {
		rest, ok := name, true
		if group != "" {
			rest, ok = strings.CutPrefix(name, group+" ")
		}
		if ok && rest != "" && !strings.Contains(rest, " ") && !slices.Contains(hidden, name) {
			words = append(words, rest)
		}
	}
	return words
}
