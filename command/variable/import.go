package variable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// importer writes the keys of an export as variables, one after the other.
type importer struct {
	prefix string
	dryRun bool
	force  bool

	env  *term.Env
	vars *api.Variables
	seen map[string]bool // keys
	done map[outcome]int
}

// outcome is the result of one key.
type outcome string

const (
	created     outcome = "created"
	overwritten outcome = "overwritten"
	unchanged   outcome = "unchanged"
	kept        outcome = "kept"
	failed      outcome = "failed"
)

func importCommand() term.Command {
	return term.Command{
		Name: "var import", Args: "<file or ->", MinArgs: 1, MaxArgs: 1,
		Short: "Write the keys of an export of Consul as variables",
		Long: "Reads the output of \"consul kv export\" from a file, or from standard input (-). Each key becomes a variable below consul/ " +
			"with the item value. Bytes that a path cannot have are written as ~ and two hex digits. Folders are left out.\n\n" +
			"Without -force, an existing variable is kept and listed. Keys that cannot be stored are listed with the reason, and " +
			"the exit code is 1. A second run writes only what is missing.",
		Setup: func(f *term.Flags) term.Run {
			i := &importer{seen: map[string]bool{}, done: map[outcome]int{}}
			f.StringVar(&i.prefix, "prefix", "", "Import only keys that begin with this `prefix`, such as app/.")
			f.BoolVar(&i.dryRun, "dry-run", false, "Print what would be done, and write nothing.")
			f.BoolVar(&i.force, "force", false, "Overwrite existing variables.")
			return func(ctx context.Context, e *term.Env) error {
				text, err := e.Input(e.Arg(0), maxExport)
				if err != nil {
					return fmt.Errorf("Error reading the export: %w", err)
				}
				keys, err := parseExport(text)
				if err != nil {
					return fmt.Errorf("Error parsing the export: %w", err)
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				i.env, i.vars = e, c.Variables()
				return i.run(ctx, keys)
			}
		},
	}
}

// run imports the keys and prints the result. An error that is not about one key ends it.
func (i *importer) run(ctx context.Context, keys []exported) error {
	matching, flags := 0, 0
	for _, x := range keys {
		if !strings.HasPrefix(x.Key, i.prefix) {
			continue
		}
		matching++
		if x.isFolder() {
			continue
		}
		if x.Flags != 0 {
			flags++
		}
		result, err := i.key(ctx, x)
		if err != nil && result != failed {
			i.summary()
			return fmt.Errorf("Error importing key %v: %w. Run the command again: it writes only what is missing", x, err)
		}
		i.report(x, result, err)
	}
	if i.prefix != "" && matching == 0 {
		return fmt.Errorf("No key of the export begins with %q", i.prefix)
	}
	i.summary()
	if flags > 0 {
		i.env.Warnf("Keys with flags, which variables do not have: %d", flags)
	}
	if n := i.done[failed]; n > 0 {
		return fmt.Errorf("Keys that were not imported: %d", n)
	}
	return nil
}

// key imports one key. An error with the outcome failed is the reason why the key cannot be stored.
func (i *importer) key(ctx context.Context, x exported) (outcome, error) {
	if i.seen[x.Key] {
		return failed, errors.New("the key is in the export more than once")
	}
	i.seen[x.Key] = true
	v, err := x.variable()
	if err != nil {
		return failed, err
	}
	write := i.write
	if i.dryRun {
		write = i.compare
	}
	result, err := write(ctx, v)
	switch api.StatusCode(err) {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return failed, err
	}
	return result, err
}

// write creates a variable. An existing one with other items is overwritten with -force.
func (i *importer) write(ctx context.Context, v *api.Variable) (outcome, error) {
	w := (&api.WriteOptions{}).WithContext(ctx)
	_, _, err := i.vars.CheckedCreate(v, w)
	var conflict api.ErrCASConflict
	if !errors.As(err, &conflict) {
		return created, err
	}
	result := i.existing(conflict.Conflict, v)
	if result != overwritten {
		return result, nil
	}
	if _, _, err = i.vars.Create(v, w); errors.As(err, &conflict) {
		return failed, explained(err, false) // it is locked
	}
	return result, err
}

// compare reads the variable and returns what write would do.
func (i *importer) compare(ctx context.Context, v *api.Variable) (outcome, error) {
	stored, _, err := i.vars.Peek(v.Path, (&api.QueryOptions{}).WithContext(ctx))
	switch {
	case err != nil || stored == nil:
		return created, err
	case stored.Lock != nil && i.force && !maps.Equal(stored.Items, v.Items):
		return failed, explained(api.ErrCASConflict{Conflict: stored}, false)
	}
	return i.existing(stored, v), nil
}

// existing returns what becomes of a stored variable. Its items are missing if the caller may not read it.
func (i *importer) existing(stored, v *api.Variable) outcome {
	switch {
	case maps.Equal(stored.Items, v.Items):
		return unchanged
	case i.force:
		return overwritten
	}
	return kept
}

// report counts a result, and lists it if the key was not stored.
func (i *importer) report(x exported, result outcome, err error) {
	i.done[result]++
	switch result {
	case kept:
		i.env.Printf("kept    %v: the variable exists with other items; -force overwrites it\n", x)
	case failed:
		i.env.Printf("failed  %v: %v\n", x, err)
	}
}

// summary prints the number of keys for each result.
func (i *importer) summary() {
	mode := ""
	if i.dryRun {
		mode = "Nothing was written. Without -dry-run: "
	}
	i.env.Printf("%s%d created, %d overwritten, %d unchanged, %d kept, %d failed\n", mode,
		i.done[created], i.done[overwritten], i.done[unchanged], i.done[kept], i.done[failed])
}
