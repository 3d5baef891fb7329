package command

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/term"
)

// page reads a page of the documentation.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "website", "content", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumented compares cli.md with the commands: their usage, and the names of their flags.
func TestDocumented(t *testing.T) {
	sections := map[string]string{}
	for _, s := range strings.Split(page(t, "cli.md"), "\n### ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		sections[name] = text
	}
	for _, c := range commands() {
		if c.Name == "agent" || c.Refused != "" { // agent.md and not-yet.md have them
			continue
		}
		text, ok := sections[c.Name]
		delete(sections, c.Name)
		if !ok {
			t.Errorf("cli.md has no section %q", c.Name)
			continue
		}
		if usage := "`" + strings.TrimSpace("nomad "+c.Name+" [options] "+c.Args) + "`"; !strings.Contains(text, usage) {
			t.Errorf("cli.md, %s: no usage line %s", c.Name, usage)
		}
		if got, want := rowFlags(text), ownFlags(c); !slices.Equal(got, want) {
			t.Errorf("cli.md, %s: the flags %q, the command has %q", c.Name, got, want)
		}
	}
	for name := range sections {
		t.Errorf("cli.md has a section %q, which is not a command", name)
	}
}

var flagName = regexp.MustCompile("`-([A-Za-z0-9-]+)")

// rowFlags returns the flags that the first cells of a section's table name.
func rowFlags(text string) []string {
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || cells[0] != "" {
			continue
		}
		for _, m := range flagName.FindAllStringSubmatch(cells[1], -1) {
			names[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ownFlags returns the flags of a command that are neither general nor refused.
func ownFlags(c term.Command) []string {
	var names []string
	own := &term.Flags{FlagSet: flag.NewFlagSet(c.Name, flag.ContinueOnError)}
	c.Setup(own)
	own.VisitAll(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Usage, "Not part of this version") {
			names = append(names, f.Name)
		}
	})
	slices.Sort(names)
	return names
}

// TestNotYet compares not-yet.md with the commands and flags that are refused.
func TestNotYet(t *testing.T) {
	want, text := map[string]string{}, page(t, "not-yet.md")
	for _, c := range commands() {
		if c.Refused != "" {
			want[c.Name] = c.Refused
		}
	}
	for _, m := range regexp.MustCompile("(?m)^- (.*?): (`.*`)$").FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Split(m[2], ", ") {
			name = strings.Trim(name, "`")
			if flags, isFlag := strings.CutPrefix(name, "-"); isFlag {
				flagsRefused(t, m[1], flags)
				continue
			}
			if want[name] != m[1] {
				t.Errorf("not-yet.md: %q is of %q, in the table of %q", name, m[1], want[name])
			}
			delete(want, name)
		}
	}
	for name, feature := range want {
		t.Errorf("not-yet.md does not list %q of %q", name, feature)
	}
	for _, l := range laterFlags {
		if !strings.Contains(text, "- "+l.feature+": ") || !strings.Contains(text, "`-"+l.flag+"`") {
			t.Errorf("not-yet.md does not list -%s of %q", l.flag, l.feature)
		}
	}
}

// flagsRefused checks that a flag of not-yet.md is refused somewhere.
func flagsRefused(t *testing.T, feature, name string) {
	t.Helper()
	for _, c := range commands() {
		if f := c.FlagSet().Lookup(name); f != nil && f.Usage == "Not part of this version: "+feature+"." {
			return
		}
	}
	t.Errorf("not-yet.md: no command refuses -%s of %q", name, feature)
}
