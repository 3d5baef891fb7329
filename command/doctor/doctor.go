// Package doctor implements nomad doctor, which checks a machine and the configuration of an
// agent, before and after installation.
//
// Each check is one row of a table (checks.go): a name, the roles that it is about, and a function
// that returns findings. A finding has a status, what was found, and what to do. The facts come
// from packages that an agent uses too, such as its configuration, the fingerprint of the node and
// the certificate store. So the command and an agent get the same results.
//
// Checks run one after the other, each with a time limit. The package changes nothing and keeps no
// state. The only processes that it starts are CNI plugins, for their versions.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/term"
)

// exitFailed is the exit code when a check failed.
const exitFailed = 2

// checkTime limits one check.
const checkTime = 20 * time.Second

// Status is the result of a finding.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is one line of the output.
type Finding struct {
	Check  string
	Status Status
	Found  string
	// Remedy is what to do, "" if nothing is.
	Remedy string `json:",omitempty"`
}

// machine is what the checks are about.
type machine struct {
	root  string   // "/" except in tests
	paths []string // of the configuration
	// settings is nil without a configuration, or if it is not valid.
	settings *config.Settings
	fault    error // of the configuration
	// attributes are those of the fingerprinted node.
	attributes map[string]string
}

// client and server report whether the machine has the role. Without a configuration it may get both.
func (m *machine) client() bool { return m.settings == nil || m.settings.Client.Enabled }
func (m *machine) server() bool { return m.settings == nil || m.settings.Server.Enabled }

// defaultConfig is the directory of the configuration of a package.
const defaultConfig = "/etc/nomad.d"

// Command returns the command doctor.
func Command() term.Command {
	return term.Command{
		Name: "doctor", Local: true, Short: "Check a machine and the configuration of an agent",
		Long: `Checks what an agent needs of this machine, and prints for each check ok, warn or fail, what was found,
and what to do. Run it as root, before the installation and when something does not work. It changes
nothing.

    nomad doctor
    nomad doctor -config=/etc/nomad.d/client.hcl -json

Without -config, it reads ` + defaultConfig + ` if that exists, and otherwise checks the machine for both roles.

Exit codes: 0 when nothing failed (warnings are allowed), 2 when a check failed, 1 for invalid flags. Checks:
` + strings.Join(checkNames(), ", ") + ".",
		Setup: func(f *term.Flags) term.Run {
			paths := f.Strings("config", "A configuration `path`, a file or directory, as of the agent; may be repeated.")
			only := f.Strings("check", "Run only the check with this `name`; may be repeated.")
			asJSON := f.Bool("json", false, "Print the findings as JSON.")
			return func(ctx context.Context, e *term.Env) error {
				if err := checkEach(*only); err != nil {
					return err
				}
				all := examine(ctx, inspect(ctx, *paths), *only)
				if *asJSON {
					if err := e.JSON(all); err != nil {
						return err
					}
				} else {
					show(e, all)
				}
				if slices.ContainsFunc(all, func(f Finding) bool { return f.Status == Fail }) {
					return term.Exit(exitFailed)
				}
				return nil
			}
		},
	}
}

// checkEach rejects names that are not those of checks.
func checkEach(names []string) error {
	for _, name := range names {
		if !slices.Contains(checkNames(), name) {
			return fmt.Errorf("unknown check %q for -check: use one of %s", name, strings.Join(checkNames(), ", "))
		}
	}
	return nil
}

// inspect reads the configuration and the fingerprint of the machine.
func inspect(ctx context.Context, paths []string) *machine {
	m := &machine{root: "/", paths: paths}
	if len(paths) == 0 {
		if _, err := os.Stat(defaultConfig); err == nil {
			m.paths = []string{defaultConfig}
		}
	}
	facts := fingerprint.Config{AllocDir: "/", Networks: fingerprint.Networks{PluginDirs: defaultPluginDirs}}
	if len(m.paths) > 0 {
		var args []string
		for _, p := range m.paths {
			args = append(args, "-config="+p)
		}
		if m.settings, m.fault = config.Parse(args); m.fault != nil {
			m.settings = nil
		}
	}
	if m.settings != nil && m.settings.Client.Enabled {
		if c, err := m.settings.ClientConfig(m.settings.DataDir, ""); err == nil {
			facts = c.Fingerprint
		}
	}
	facts.AllocDir = existing(facts.AllocDir)
	m.attributes = fingerprint.NewHost(m.root, facts).Run(ctx, slog.New(slog.NewTextHandler(io.Discard, nil))).Attributes
	return m
}

// examine runs the checks that the names select, all without names.
func examine(ctx context.Context, m *machine, only []string) []Finding {
	all := []Finding{}
	for _, c := range checks {
		if len(only) > 0 && !slices.Contains(only, c.name) || !c.applies(m) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		found := c.run(ctx, m)
		cancel()
		for _, f := range found {
			f.Check = c.name
			all = append(all, f)
		}
	}
	return all
}

// show prints the findings, each with its remedy on the next line.
func show(e *term.Env, all []Finding) {
	wide := 0
	for _, f := range all {
		wide = max(wide, len(f.Check))
	}
	count := map[Status]int{}
	for _, f := range all {
		count[f.Status]++
		e.Printf("%-4s  %-*s  %s\n", f.Status, wide, f.Check, term.Cell(f.Found))
		if f.Remedy != "" {
			e.Printf("%s  → %s\n", strings.Repeat(" ", 4+2+wide), term.Cell(f.Remedy))
		}
	}
	e.Printf("\n%d ok, %d warnings, %d failed\n", count[OK], count[Warn], count[Fail])
}

// ok, warn and fail return findings.
func ok(format string, a ...any) Finding {
	return Finding{Status: OK, Found: fmt.Sprintf(format, a...)}
}

func warn(remedy, format string, a ...any) Finding {
	return Finding{Status: Warn, Found: fmt.Sprintf(format, a...), Remedy: remedy}
}

func fail(remedy, format string, a ...any) Finding {
	return Finding{Status: Fail, Found: fmt.Sprintf(format, a...), Remedy: remedy}
}

// lines returns the messages of a joined error.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		var out []string
		for _, e := range many.Unwrap() {
			out = append(out, lines(e)...)
		}
		return out
	}
	return []string{err.Error()}
}
