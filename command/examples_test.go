package command

import (
	"regexp"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/term"
)

// longExample matches an example in the text of a command.
var longExample = regexp.MustCompile(`(?m)^ +(?:\$ )?(?:export \S+=\$\()?nomad (.*)$`)

// TestEveryCommandHasAnExample checks that -h of every command shows an example of it, that its flags and
// the number of its arguments are valid, and that no example is of a missing command.
func TestEveryCommandHasAnExample(t *testing.T) {
	table := named()
	for name := range examples {
		if c, ok := table[name]; !ok || c.Refused != "" {
			t.Errorf("examples has %q, which is not a command", name)
		}
	}
	for _, c := range commands() {
		if c.Refused != "" {
			continue
		}
		shown := strings.Split(c.Example, "\n")
		if c.Example == "" {
			shown = nil
			for _, m := range longExample.FindAllStringSubmatch(c.Long, -1) {
				shown = append(shown, "nomad "+m[1])
			}
		}
		own := 0
		for _, line := range shown {
			if strings.HasPrefix(line+" ", "nomad "+c.Name+" ") {
				own++
				exampleParses(t, c, strings.TrimPrefix(line, "nomad "+c.Name))
			}
		}
		if own == 0 {
			t.Errorf("%s: -h shows no example: add a line to examples.go", c.Name)
		}
		if c.Example != "" && len(longExample.FindAllString(c.Long, -1)) > 0 {
			t.Errorf("%s: its text has an example, and examples.go has one", c.Name)
		}
		if help := c.Adapt(nil, nil, nil).Help(); c.Example != "" && !strings.Contains(help, "\nExample:\n\n  "+shown[0]) {
			t.Errorf("%s: the help does not show the example %q", c.Name, shown[0])
		}
	}
}

// exampleParses checks the flags and arguments of an example. Quotes are removed as a shell does, and what
// follows < is not an argument.
func exampleParses(t *testing.T, c term.Command, line string) {
	t.Helper()
	line, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), `\`), " <")
	var args []string
	for _, w := range regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`).FindAllString(line, -1) {
		args = append(args, strings.Trim(w, `"'`))
	}
	f := c.FlagSet()
	if err := f.Parse(args); err != nil {
		t.Errorf("%s: example %q: %v", c.Name, line, err)
	}
	if n := f.NArg(); n < c.MinArgs || c.MaxArgs >= 0 && n > c.MaxArgs {
		t.Errorf("%s: example %q has %d arguments, the command takes %d to %d", c.Name, line, n, c.MinArgs, c.MaxArgs)
	}
}
