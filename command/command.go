// Package command is the command line: the table of all commands (table.go), and Main,
// which runs the command that the arguments name. Each group of commands is a package
// below (command/job, command/alloc, ...). They share command/term.
//
// Commands of features that this version does not have are in the table too. They print
// the feature and exit with 1.
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

// Main runs the command line args (without the program's name) and returns the exit code:
// 127 for a missing or unknown command, 1 for a group without a subcommand.
func Main(args []string) int {
	table := commands()
	var hidden []string
	factories := map[string]cli.CommandFactory{}
	for _, c := range table {
		for i, name := range append([]string{c.Name}, c.Alias...) {
			c.Name = name
			adapted := c.Adapt(os.Stdin, os.Stdout, os.Stderr)
			factories[name] = func() (cli.Command, error) { return adapted, nil }
			if i > 0 && (strings.Contains(name, "-") || name == "debug") || c.Hidden {
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
		if line := unknown(args, factories, hidden); line != "" {
			fmt.Fprintf(&help, "\n%s\n", line) // last, so that it does not scroll away
		}
	}
	to.Write(help.Bytes()) // there is no other way to report a failure
	return code
}

// versionFlag replaces -v, -version and --version by the version command.
func versionFlag(args []string) []string {
	if len(args) == 1 && slices.Contains([]string{"-v", "-version", "--version"}, args[0]) {
		return []string{"version"}
	}
	return args
}

// groupShort describes each group of commands in one line.
var groupShort = map[string]string{
	"acl": "Access control", "acl policy": "ACL policies", "acl role": "ACL roles: sets of policies", "acl token": "ACL tokens",
	"alloc": "Allocations", "config": "Agent configuration", "context": "Clusters that the commands use", "deployment": "Deployments",
	"eval": "Evaluations", "job": "Jobs",
	"node": "Nodes", "license": "Licenses of Nomad Enterprise", "plugin": "CSI plugins", "node identity": "Node identities",
	"operator": "Cluster administration", "operator root": "Root keys", "operator gossip": "Gossip encryption keys",
	"operator gossip keyring": "Gossip encryption keys",
	"operator root keyring":   "Root keys", "operator scheduler": "Scheduler configuration", "server": "Servers", "setup": "Preparation of other systems for the cluster",
	"system": "Garbage collection and job summaries", "system reconcile": "Job summaries", "tls": "Certificates",
	"tls ca": "Certificate authorities", "tls cert": "Certificates of agents and users",
	"var": "Variables", "namespace": "Namespaces", "quota": "Quotas", "volume": "CSI volumes and host volumes",
	"volume claim": "Claims of groups with sticky volumes", "volume snapshot": "Snapshots of CSI volumes", "scaling": "Scaling policies",
	"scaling policy": "Scaling policies", "job periodic": "Periodic jobs", "node pool": "Node pools", "node intro": "Introduction tokens",
	"operator raft": "Raft configuration and log", "operator autopilot": "Autopilot configuration and health",
	"operator snapshot": "Snapshots of the state of the servers",
	"acl auth-method":   "ACL auth methods", "acl binding-rule": "ACL binding rules",
}

// addGroups adds the groups of the commands ("job" for "job run"), and returns the groups
// that have hidden commands only.
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

// groupCommand prints the help of a group.
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

// common are the commands that the root help lists first.
var common = []string{"run", "stop", "exec", "status", "alloc", "job", "node", "agent"}

// rootHelp lists the top-level commands and groups.
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
