package command

import (
	_ "embed"
	"io"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/term"
)

// upstream lists the commands of Nomad with their flags.
//
//go:embed testdata/commands.tsv
var upstream string

// generalFlags are the flags of every command that calls an agent. Nomad has no -context.
var generalFlags = []string{"address:string", "region:string", "namespace:string", "no-color:bool", "force-color:bool", "ca-cert:string",
	"ca-path:string", "client-cert:string", "client-key:string", "tls-server-name:string", "tls-skip-verify:bool", "insecure:bool",
	"token:string", "context:string"}

// TestEveryCommand checks that each command of Nomad is implemented with all its flags, or
// refused by name.
func TestEveryCommand(t *testing.T) {
	table, groups := named(), map[string]bool{}
	for name := range table {
		words := strings.Fields(name)
		for n := 1; n < len(words); n++ {
			groups[strings.Join(words[:n], " ")] = true
		}
	}
	for line := range strings.Lines(upstream) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(strings.TrimRight(line, "\n"), "\t")
		name, flags := row[0], strings.Fields(row[2])
		if row[1] == "general" {
			flags = append(flags, generalFlags...)
		}
		c, ok := table[name]
		switch {
		case !ok && !groups[name]:
			t.Errorf("%s: no such command", name)
		case ok && c.Refused != "":
			refuses(t, c, flags)
		case ok:
			declares(t, c, flags)
		}
	}
}

// named returns the commands by name and alias.
func named() map[string]term.Command {
	out := map[string]term.Command{}
	for _, c := range commands() {
		for _, name := range append([]string{c.Name}, c.Alias...) {
			c.Name = name
			out[name] = c
		}
	}
	return out
}

// refuses checks that a command names its feature whatever flags it gets.
func refuses(t *testing.T, c term.Command, flags []string) {
	t.Helper()
	var errs strings.Builder
	args := []string{}
	for _, f := range flags {
		name, kind, _ := strings.Cut(f, ":")
		args = append(args, "-"+name)
		if kind != "bool" {
			args = append(args, "x")
		}
	}
	code := c.Adapt(strings.NewReader(""), io.Discard, &errs).Run(append(args, "-nosuchflag", "an argument"))
	if code != 1 || !strings.Contains(errs.String(), "nomad "+c.Name+": ") || !strings.Contains(errs.String(), "not part of this version") {
		t.Errorf("%s %q: exit code %d, %q", c.Name, args, code, errs.String())
	}
}

// declares checks that a command has flags, and that those without a value are the same.
func declares(t *testing.T, c term.Command, flags []string) {
	t.Helper()
	own := c.FlagSet()
	for _, f := range flags {
		name, kind, _ := strings.Cut(f, ":")
		found := own.Lookup(name)
		if found == nil {
			t.Errorf("%s: no flag -%s", c.Name, name)
			continue
		}
		b, ok := found.Value.(interface{ IsBoolFlag() bool })
		if isBool := ok && b.IsBoolFlag(); isBool != (kind == "bool") {
			t.Errorf("%s: -%s takes no value: %t, want %t", c.Name, name, isBool, kind == "bool")
		}
	}
}
