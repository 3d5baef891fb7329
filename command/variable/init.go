package variable

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/open-nomad/open-nomad/command/term"
)

//go:embed example.nv.hcl
var exampleHCL []byte

//go:embed example.nv.json
var exampleJSON []byte

func initCommand() term.Command {
	return term.Command{
		Name: "var init", Args: "[filename]", MaxArgs: 1,
		Short: "Write an example variable specification",
		Setup: func(f *term.Flags) term.Run {
			format := f.String("out", "hcl", "The `format`: hcl or json.")
			quiet := f.Bool("quiet", false, "Print nothing on success.")
			return func(_ context.Context, e *term.Env) error {
				text, known := map[string][]byte{"hcl": exampleHCL, "json": exampleJSON}[*format]
				if !known {
					return fmt.Errorf("Invalid value for -out: %q; expected hcl or json", *format)
				}
				name := e.Arg(0)
				if name == "" {
					name = "spec.nv." + *format
				}
				if err := writeNew(name, text); err != nil {
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

// writeNew creates a file with mode 0600: the user will add secrets to it.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("File %q already exists: nothing written", name)
	}
	if err != nil {
		return fmt.Errorf("Failed to write %q: %w", name, err)
	}
	if _, err = f.Write(text); err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("Failed to write %q: %w", name, err)
	}
	return nil
}
