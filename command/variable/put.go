package variable

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func putCommand() term.Command {
	return term.Command{
		Name: "var put", Args: "<path or @file or -> [@file or -] [name=value]...", MinArgs: 1, MaxArgs: -1,
		Short: "Make or change a variable",
		Long: "The items come from a specification in JSON or HCL (@file, or - for standard input), from the command line, or both: the command line wins. " +
			"A value @file is what the file holds, - what standard input does; \\@ begins a value with an @. " +
			"Without -force and -check-index, the variable is stored only if it has the modify index of the specification; without one there, only if it does not exist.",
		Setup: func(f *term.Flags) term.Run {
			check := f.String("check-index", "", "Only if the variable has this modify `index`; 0 if there is none.")
			force := f.Bool("force", false, "Overwrite the variable, whatever its modify index.")
			in := f.String("in", "", "The `format` of the specification: json or hcl. Default: as its name says, else json.")
			f.Bool("verbose", false, "Tell more.")
			var how output
			how.declare(f, "none", "json", "table")
			return func(ctx context.Context, e *term.Env) error {
				index, checked, err := checkIndex(*check)
				if err != nil {
					return err
				}
				show, err := how.printer(e, "none")
				if err != nil {
					return err
				}
				v, rest, err := specification(e, e.Args, *in)
				if err != nil {
					return err
				}
				if err := addItems(e, rest, v.Items); err != nil {
					return err
				}
				if checked {
					v.ModifyIndex = index
				}
				stored, err := put(ctx, e, v, checked, *force)
				if err != nil {
					return err
				}
				if e.IsTerminal() {
					e.Warnf("Successfully created variable %q!", stored.Path)
				}
				return show(stored)
			}
		},
	}
}

// put stores a variable: checked against its modify index, 0 for one that must not exist,
// unless it is forced.
func put(ctx context.Context, e *term.Env, v *api.Variable, checked, force bool) (*api.Variable, error) {
	if checked && force {
		return nil, fmt.Errorf("-check-index and -force exclude each other")
	}
	c, err := e.Client()
	if err != nil {
		return nil, err
	}
	w := (&api.WriteOptions{}).WithContext(ctx)
	var stored *api.Variable
	if force {
		stored, _, err = c.Variables().Create(v, w)
	} else {
		stored, _, err = c.Variables().CheckedUpdate(v, w)
	}
	if err != nil {
		return nil, fmt.Errorf("Error creating variable: %w", explained(err, checked))
	}
	return stored, nil
}
