// Package variable holds the commands for variables: get, import, init, list, lock,
// purge, put.
// They call an agent through package api. They keep no state and log no values.
package variable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{getCommand(), importCommand(), initCommand(), listCommand(), lockCommand(), purgeCommand(), putCommand()}
}

// errNotFound has the text of Nomad 2.0, which tools compare.
var errNotFound = errors.New("Variable not found")

func getCommand() term.Command {
	return term.Command{
		Name: "var get", Args: "<path>", MinArgs: 1, MaxArgs: 1, Short: "Show a variable",
		Setup: func(f *term.Flags) term.Run {
			item := f.String("item", "", "Print only the value of this `item`.")
			var how output
			how.declare(f, "table", "json")
			return func(ctx context.Context, e *term.Env) error {
				show, err := how.printer(e, "table", "json")
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				v, _, err := c.Variables().Read(e.Arg(0), (&api.QueryOptions{}).WithContext(ctx))
				if err != nil && err.Error() == api.ErrVariableNotFound {
					return errNotFound
				}
				if err != nil {
					return fmt.Errorf("Error retrieving variable: %w", err)
				}
				if *item == "" {
					return show(v)
				}
				value, ok := v.Items[*item]
				if !ok {
					return fmt.Errorf("Variable does not contain %q item", *item)
				}
				e.Println(value)
				return nil
			}
		},
	}
}

func listCommand() term.Command {
	return term.Command{
		Name: "var list", Args: "[prefix]", MaxArgs: 1, Short: "List variables",
		Setup: func(f *term.Flags) term.Run {
			q := &api.QueryOptions{}
			f.StringVar(&q.Filter, "filter", "", "List only variables that match the `expression`.")
			f.StringVar(&q.NextToken, "page-token", "", "The `token` of the page to show.")
			perPage := f.Int("per-page", 0, "The number of variables per page.")
			var how output
			how.declare(f, "table", "json", "terse")
			return func(ctx context.Context, e *term.Env) error {
				show, err := how.listPrinter(e)
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				q.PerPage = int32(*perPage)
				vars, meta, err := c.Variables().PrefixList(e.Arg(0), q.WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error retrieving vars: %w", err)
				}
				if err := show(vars); err != nil {
					return err
				}
				if meta.NextToken != "" {
					e.Warnf("Results have been paginated. To get the next page run:\n\nnomad var list -page-token %s %s", meta.NextToken, e.Arg(0))
				}
				return nil
			}
		},
	}
}

// checkIndex parses the flag -check-index. It reports false if the flag is empty.
func checkIndex(text string) (index uint64, given bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	if index, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, false, fmt.Errorf("Invalid -check-index value %q: expected a number", text)
	}
	return index, true, nil
}

func purgeCommand() term.Command {
	return term.Command{
		Name: "var purge", Args: "<path>", MinArgs: 1, MaxArgs: 1, Short: "Delete a variable",
		Setup: func(f *term.Flags) term.Run {
			check := f.String("check-index", "", "Delete only if the modify `index` of the variable is equal.")
			return func(ctx context.Context, e *term.Env) error {
				index, checked, err := checkIndex(*check)
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				w := (&api.WriteOptions{}).WithContext(ctx)
				if checked {
					_, err = c.Variables().CheckedDelete(e.Arg(0), index, w)
				} else {
					_, err = c.Variables().Delete(e.Arg(0), w)
				}
				if err != nil {
					return fmt.Errorf("Error purging variable: %w", explained(err, checked))
				}
				e.Printf("Successfully purged variable %q!\n", e.Arg(0))
				return nil
			}
		},
	}
}

// explained describes the conflict behind a failed write.
func explained(err error, checked bool) error {
	var c api.ErrCASConflict
	switch {
	case !errors.As(err, &c):
		return err
	case c.Conflict.Lock != nil:
		return fmt.Errorf("the variable %q is locked: only the holder of the lock can write it", c.Conflict.Path)
	case checked:
		return fmt.Errorf("Check-and-Set conflict: your provided check-index (%d) does not match the server-side index (%d)", c.CheckIndex,
			c.Conflict.ModifyIndex)
	}
	return fmt.Errorf("Check-and-Set conflict: the modify index %d does not match the server-side index (%d). Use "+
		"-force or -check-index=%d to write it anyway",
		c.CheckIndex, c.Conflict.ModifyIndex, c.Conflict.ModifyIndex)
}

// output holds the flags for the output format.
type output struct {
	format, template string
}

func (o *output) declare(f *term.Flags, formats ...string) {
	usage := "The `format` of the output:"
	for _, name := range formats {
		usage += " " + name + ","
	}
	f.StringVar(&o.format, "out", "", usage+" hcl or go-template (with -template). Default: the first on a terminal, else json.")
	f.StringVar(&o.template, "template", "", "Print with a Go `template`. Requires -out=go-template.")
}

// named returns the format. Its default on a terminal is onTerminal.
func (o *output) named(e *term.Env, onTerminal string) (string, error) {
	switch {
	case o.format == "go-template" && o.template == "":
		return "", errors.New("A template must be supplied using '-template' when using go-template formatting")
	case o.format != "go-template" && o.template != "" && o.format != "":
		return "", errors.New("-template requires -out=go-template")
	case o.template != "":
		return "go-template", nil
	case o.format != "":
		return o.format, nil
	case e.IsTerminal():
		return onTerminal, nil
	}
	return "json", nil
}

// printer returns the function that prints a variable.
func (o *output) printer(e *term.Env, onTerminal string, _ ...string) (func(*api.Variable) error, error) {
	format, err := o.named(e, onTerminal)
	if err != nil {
		return nil, err
	}
	switch format {
	case "none":
		return func(*api.Variable) error { return nil }, nil
	case "json":
		return func(v *api.Variable) error { return e.JSON(v) }, nil
	case "hcl":
		return func(v *api.Variable) error { e.Printf("%s", asHCL(v)); return nil }, nil
	case "table":
		return func(v *api.Variable) error { table(e, v); return nil }, nil
	case "go-template":
		return func(v *api.Variable) error { return term.NewFormats(false, o.template).Print(e, v) }, nil
	}
	return nil, fmt.Errorf("Invalid value for -out: %q; expected none, table, json, hcl or go-template", format)
}

// listPrinter returns the function that prints a list.
func (o *output) listPrinter(e *term.Env) (func([]*api.VariableMetadata) error, error) {
	format, err := o.named(e, "table")
	if err != nil {
		return nil, err
	}
	switch format {
	case "json":
		return func(all []*api.VariableMetadata) error { return e.JSON(all) }, nil
	case "go-template":
		return func(all []*api.VariableMetadata) error { return term.NewFormats(false, o.template).Print(e, all) }, nil
	case "terse":
		return func(all []*api.VariableMetadata) error {
			for _, v := range all {
				e.Println(v.Path)
			}
			return nil
		}, nil
	case "table":
		return func(all []*api.VariableMetadata) error {
			if len(all) == 0 {
				e.Println("No matching variables found")
				return nil
			}
			rows := []string{"Namespace|Path|Last Updated"}
			for _, v := range all {
				rows = append(rows, term.Row(v.Namespace, v.Path, term.UnixNano(v.ModifyTime)))
			}
			e.Println(term.Table(rows))
			return nil
		}, nil
	}
	return nil, fmt.Errorf("Invalid value for -out: %q; expected table, terse, json or go-template", format)
}

// table prints a variable as a table.
func table(e *term.Env, v *api.Variable) {
	rows := []string{term.Row("Namespace", v.Namespace), term.Row("Path", v.Path), term.Row("Create Time", term.UnixNano(v.CreateTime))}
	if v.CreateTime != v.ModifyTime {
		rows = append(rows, term.Row("Modify Time", term.UnixNano(v.ModifyTime)))
	}
	rows = append(rows, term.Row("Check Index", v.ModifyIndex))
	if v.Lock != nil {
		rows = append(rows, term.Row("Lock ID", v.Lock.ID), term.Row("Lock TTL", v.Lock.TTL), term.Row("Lock Delay", v.Lock.LockDelay))
	}
	e.Println(term.Pairs(rows))
	e.Println("\n" + e.Bold("Items"))
	var items []string
	for _, name := range slices.Sorted(maps.Keys(v.Items)) {
		items = append(items, term.Row(name, v.Items[name]))
	}
	e.Println(term.Pairs(items))
}
