package variable

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/open-nomad/open-nomad/command/term"
)

//go:embed example.nv.hcl
var exampleHCL string

//go:embed example.nv.json
var exampleJSON string

func initCommand() term.Command {
	return term.Command{
		Name: "var init", Args: "[filename]", MaxArgs: 1,
		Short: "Write an example variable specification",
		Setup: func(f *term.Flags) term.Run {
			format := f.String("out", "hcl", "The `format`: hcl or json.")
			quiet := f.Bool("quiet", false, "Print nothing on success.")
			return func(_ context.Context, e *term.Env) error {
				text, known := map[string]string{"hcl": exampleHCL, "json": exampleJSON}[*format]
				if !known {
					return fmt.Errorf("Invalid value for -out: %q; expected hcl or json", *format)
				}
				name := e.Arg(0)
				if name == "" {
					name = "spec.nv." + *format
				}
				// The user adds secrets to the file.
				if err := term.WriteNew(name, text, 0o600); err != nil {
					return err
				}
				if !*quiet {
					e.Printf("Example variable specification written to %s\n", name)
				}
				return nil
			}
		},
	}
}
