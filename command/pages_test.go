package command

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/term"
)

var update = flag.Bool("update", false, "rewrite the generated part of the pages about commands")

// generated ends the part of a page in docs/commands that is written by hand.
const generated = "\n<!-- Generated from the help texts by: go test ./command -run TestCommandPages -update -->\n"

// commandPages are the pages in docs/commands with the groups and commands that they describe.
// The longest match counts.
var commandPages = map[string][]string{
	"acl.md":        {"acl", "login"},
	"agent.md":      {"agent", "agent-info", "config"},
	"alloc.md":      {"alloc", "port-forward"},
	"context.md":    {"context"},
	"deployment.md": {"deployment"},
	"doctor.md":     {"doctor"},
	"eval.md":       {"eval"},
	"general.md":    {"fmt", "status", "ui", "version"},
	"job.md":        {"job"},
	"namespace.md":  {"namespace"},
	"node.md":       {"node"},
	"node-pool.md":  {"node pool"},
	"monitor.md":    {"monitor"},
	"operator.md":   {"operator", "check", "license", "plugin"},
	"quota.md":      {"quota"},
	"scaling.md":    {"scaling"},
	"server.md":     {"server"},
	"service.md":    {"service"},
	"setup.md":      {"setup"},
	"system.md":     {"system"},
	"tls.md":        {"tls"},
	"top.md":        {"top"},
	"var.md":        {"var"},
	"volume.md":     {"volume"},
}

// pageOf returns the page that describes a command.
func pageOf(name string) string {
	page, longest := "", ""
	for p, groups := range commandPages {
		for _, g := range groups {
			if (name == g || strings.HasPrefix(name, g+" ")) && len(g) > len(longest) {
				page, longest = p, g
			}
		}
	}
	return page
}

// TestCommandPages compares the generated parts of the pages in docs/commands with the commands.
func TestCommandPages(t *testing.T) {
	want, overview := map[string]string{}, page(t, "cli.md")
	for _, c := range commands() {
		if c.Refused != "" { // not-yet.md lists them
			continue
		}
		name := pageOf(c.Name)
		if name == "" {
			t.Errorf("no page for %q: add its group to commandPages", c.Name)
		}
		want[name] += section(c)
	}
	for name := range commandPages {
		text := page(t, filepath.Join("commands", name))
		head, got, ok := strings.Cut(text, generated)
		switch {
		case !ok:
			t.Errorf("commands/%s: no line %q", name, strings.TrimSpace(generated))
		case *update:
			if err := os.WriteFile(filepath.Join(docs, "commands", name), []byte(head+generated+want[name]), 0o644); err != nil {
				t.Error(err)
			}
		case got != want[name]:
			t.Errorf("commands/%s differs from the help texts: run go test ./command -run TestCommandPages -update", name)
		}
		if !strings.Contains(overview, "(commands/"+name+")") {
			t.Errorf("cli.md has no link to commands/%s", name)
		}
	}
}

// pageWidth is the length of the longest line of a page. TestPageLines in e2e checks all pages.
const pageWidth = 120

// section describes a command in Markdown.
func section(c term.Command) string {
	var b strings.Builder
	usage := strings.TrimSpace("nomad " + c.Name + " [options] " + c.Args)
	fmt.Fprintf(&b, "\n## nomad %s\n\n```\n%s\n```\n\n%s.\n", c.Name, usage, strings.TrimSuffix(c.Short, "."))
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", prose(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", c.Example)
	}
	if len(c.Alias) > 0 {
		fmt.Fprintf(&b, "\nOther names: `nomad %s`.\n", strings.Join(c.Alias, "`, `nomad "))
	}
	sep := "\n"
	for _, f := range ownFlags(c) {
		arg, usage := flag.UnquoteUsage(f)
		if arg != "" {
			arg = "=<" + arg + ">"
		}
		item := "- `-" + f.Name + arg + "`: " + strings.ReplaceAll(usage, "\n", " ")
		b.WriteString(sep + strings.ReplaceAll(prose(item), "\n", "\n  ") + "\n")
		sep = ""
	}
	return b.String()
}

// prose wraps text for a page and escapes it for Markdown. Indented lines and code are not changed.
func prose(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, " ") {
			continue
		}
		parts := strings.Split(line, "`")
		for j := 0; j < len(parts); j += 2 {
			parts[j] = strings.NewReplacer(`\`, `\\`, "<", `\<`, "*", `\*`).Replace(parts[j])
		}
		lines[i] = strings.Join(parts, "`")
	}
	return term.Wrap(strings.Join(lines, "\n"), pageWidth-2)
}

// TestPageSnippets checks the commands and flags in the examples above the generated parts.
func TestPageSnippets(t *testing.T) {
	table := named()
	for name := range commandPages {
		head, _, _ := strings.Cut(page(t, filepath.Join("commands", name)), generated)
		found := regexp.MustCompile(`(?m)^\$ nomad (.*)$`).FindAllStringSubmatch(head, -1)
		if len(found) == 0 {
			t.Errorf("commands/%s begins without an example", name)
		}
		for _, m := range found {
			words := strings.Fields(m[1])
			n := len(words)
			for n > 0 && table[strings.Join(words[:n], " ")].Setup == nil {
				n--
			}
			c := table[strings.Join(words[:n], " ")]
			if n == 0 || c.Refused != "" {
				t.Errorf("commands/%s: no such command: nomad %s", name, m[1])
				continue
			}
			if err := c.FlagSet().Parse(words[n:]); err != nil {
				t.Errorf("commands/%s: nomad %s: %v", name, m[1], err)
			}
		}
	}
}

// TestCommonFlags compares the flags in cli.md with those of every command that calls an agent.
func TestCommonFlags(t *testing.T) {
	var want []string
	for _, f := range generalFlags {
		name, _, _ := strings.Cut(f, ":")
		want = append(want, name)
	}
	slices.Sort(want)
	if got := rowFlags(page(t, "cli.md")); !slices.Equal(got, want) {
		t.Errorf("cli.md has the common flags %q, the commands have %q", got, want)
	}
}

var flagName = regexp.MustCompile("`-([A-Za-z0-9-]+)")

// rowFlags returns the flags in the first cells of the tables of a page.
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

// ownFlags returns the flags of a command that are neither general nor refused, by name.
func ownFlags(c term.Command) []*flag.Flag {
	var flags []*flag.Flag
	own := &term.Flags{FlagSet: flag.NewFlagSet(c.Name, flag.ContinueOnError)}
	c.Setup(own)
	own.VisitAll(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Usage, "Not part of this version") && !strings.HasPrefix(f.Usage, "Not available yet") {
			flags = append(flags, f)
		}
	})
	return flags
}
