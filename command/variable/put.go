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
		Short: "Create or update a variable",
		Long: "The items are read from a specification in JSON or HCL (@file, or - for standard input) and from the " +
			"command line, which overrides it. " +
			"The value @file is replaced by the contents of the file, - by standard input. Write \\@ for a value that begins with @.\n\n" +
			"Without -force and -check-index, the variable is written only if its modify index equals that of the " +
			"specification. If the specification has none, the variable must not exist.",
		Setup: func(f *term.Flags) term.Run {
			check := f.String("check-index", "", "Write only if the modify `index` of the variable is equal; 0 if it must not exist.")
			force := f.Bool("force", false, "Overwrite the variable without a check of its modify index.")
			in := f.String("in", "", "The `format` of the specification: json or hcl. Default: by the file name, else json.")
			f.Bool("verbose", false, "Print more.")
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
				stored, err := put(ctx, e, v, writing{checked: checked, force: *force})
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

// writing has the flags -check-index and -force.
type writing struct{ checked, force bool }

// put writes a variable. Unless forced, its modify index must be equal, 0 for a variable
// that must not exist.
func put(ctx context.Context, e *term.Env, v *api.Variable, how writing) (*api.Variable, error) {
	if how.checked && how.force {
		return nil, fmt.Errorf("-check-index and -force are mutually exclusive")
	}
	c, err := e.Client()
	if err != nil {
		return nil, err
	}
	w := (&api.WriteOptions{}).WithContext(ctx)
	var stored *api.Variable
	if how.force {
		stored, _, err = c.Variables().Create(v, w)
	} else {
		stored, _, err = c.Variables().CheckedUpdate(v, w)
	}
	if err != nil {
		return nil, fmt.Errorf("Error creating variable: %w", explained(err, how.checked))
	}
	return stored, nil
}
