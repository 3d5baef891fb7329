// Package command is the command line: one table of every command (table.go),
// and Main, which runs the one that the arguments name. The commands live one
// package a noun below (command/job, command/alloc, ...); what they share is
// command/term.
//
// Commands of features that this version does not have are in the table too:
// they say so by name and exit with 1.
package command

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/cli"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/version"
)

// Main runs the command line args (without the program's name) and returns the
// exit code: 127 for no or an unknown command, 1 for a group without one.
func Main(args []string) int {
	table := commands()
	var hidden []string
	factories := map[string]cli.CommandFactory{}
	for _, c := range table {
		for i, name := range append([]string{c.Name}, c.Alias...) {
			c.Name = name
			adapted := c.Adapt(os.Stdin, os.Stdout, os.Stderr)
			factories[name] = func() (cli.Command, error) { return adapted, nil }
			if i > 0 && strings.Contains(name, "-") || c.Hidden {
				hidden = append(hidden, name)
			}
		}
	}
	hidden = append(hidden, addGroups(factories, hidden)...)
	var help bytes.Buffer
	c := &cli.CLI{Name: "nomad", Version: version.Human(), Args: versionFlag(args), Commands: factories,
		HiddenCommands: hidden, Autocomplete: true, AutocompleteNoDefaultFlags: true,
		HelpFunc: cli.FilteredHelpFunc(slices.Collect(maps.Keys(factories)), rootHelp), HelpWriter: &help}
	code, err := c.Run()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error executing CLI: %v\n", err)
		return 1
	}
	to := io.Writer(os.Stdout)
	if code != 0 {
		to = os.Stderr
	}
	to.Write(help.Bytes()) // nothing is left to tell when this fails
	return code
}

// versionFlag makes -v, -version and --version the version command.
func versionFlag(args []string) []string {
	if len(args) == 1 && slices.Contains([]string{"-v", "-version", "--version"}, args[0]) {
		return []string{"version"}
	}
	return args
}

// groupShort says in a line what each group of commands is about.
var groupShort = map[string]string{
	"acl": "Access control", "acl policy": "What callers may do", "acl role": "Sets of policies", "acl token": "Tokens of people and tools",
	"alloc": "Allocations", "config": "Agent configuration", "deployment": "Deployments", "eval": "Evaluations", "job": "Jobs",
	"node": "Nodes", "node identity": "The identity of a node", "operator": "Tools for operators", "operator root": "Root keys", "operator gossip": "The keys of gossip", "operator gossip keyring": "The keys of gossip",
	"operator root keyring": "Root keys", "operator scheduler": "How the scheduler is configured", "server": "Servers",
	"system": "The whole cluster", "system reconcile": "Repairs", "tls": "Certificates", "tls ca": "The certificate authority of a cluster", "tls cert": "Certificates of agents and users",
	"var": "Variables", "namespace": "Namespaces", "quota": "Quotas", "node pool": "Node pools", "node intro": "Introduction tokens",
	"operator raft": "The Raft cluster", "operator autopilot": "How the leader keeps the servers", "operator snapshot": "Snapshots of the state of the servers",
	"acl auth-method": "Ways to log in", "acl binding-rule": "What those get who log in",
}

// addGroups adds the words that stand before commands ("job" of "job run"), and
// returns those before hidden ones only.
func addGroups(factories map[string]cli.CommandFactory, hidden []string) []string {
	shown := map[string]bool{}
	for _, name := range slices.Collect(maps.Keys(factories)) {
		words := strings.Fields(name)
		for n := 1; n < len(words); n++ {
			group := strings.Join(words[:n], " ")
			shown[group] = shown[group] || !slices.Contains(hidden, name)
			if _, ok := factories[group]; !ok {
				factories[group] = func() (cli.Command, error) { return groupCommand(group), nil }
			}
		}
	}
	return slices.DeleteFunc(slices.Collect(maps.Keys(shown)), func(group string) bool { return shown[group] })
}

// groupCommand answers a group without a command.
type groupCommand string

func (g groupCommand) Synopsis() string {
	if s, ok := groupShort[string(g)]; ok {
		return s
	}
	return "Commands of " + string(g)
}

func (g groupCommand) Help() string {
	return fmt.Sprintf("Usage: nomad %s <subcommand> [options] [args]\n\n  %s.", string(g), g.Synopsis())
}

func (g groupCommand) Run([]string) int { return cli.RunResultHelp }

// common are the commands that the root help names first.
var common = []string{"run", "stop", "exec", "status", "alloc", "job", "node", "agent"}

// rootHelp lists the commands of the first level.
func rootHelp(commands map[string]cli.CommandFactory) string {
	var b strings.Builder
	b.WriteString("Usage: nomad [-version] [-help] [-autocomplete-(un)install] <command> [args]\n")
	list := func(title string, keep func(string) bool) {
		rows := []string{}
		for _, name := range slices.Sorted(maps.Keys(commands)) {
			if c, err := commands[name](); err == nil && keep(name) && !strings.Contains(name, " ") {
				rows = append(rows, term.Row(name, c.Synopsis()))
			}
		}
		fmt.Fprintf(&b, "\n%s:\n    %s\n", title, strings.ReplaceAll(term.Table(rows), "\n", "\n    "))
	}
	list("Common commands", func(n string) bool { return slices.Contains(common, n) })
	list("Other commands", func(n string) bool { return !slices.Contains(common, n) })
	return strings.TrimRight(b.String(), "\n")
}
