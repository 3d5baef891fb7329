package job

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/open-nomad/open-nomad/command/term"
)

//go:embed example.nomad.hcl
var example []byte

//go:embed example-short.nomad.hcl
var exampleShort []byte

const defaultSpec = "example.nomad.hcl"

func initCommand() term.Command {
	return term.Command{
		Name: "job init", Alias: []string{"init"}, Args: "[filename]", MaxArgs: 1, Local: true,
		Short: "Write an example jobspec",
		Setup: func(f *term.Flags) term.Run {
			short := f.Bool("short", false, "Without comments.")
			return func(_ context.Context, e *term.Env) error {
				name, text := e.Arg(0), example
				if name == "" {
					name = defaultSpec
				}
				if *short {
					text = exampleShort
				}
				return writeNew(e, name, text)
			}
		},
	}
}

// writeNew writes a file that must not exist yet.
func writeNew(e *term.Env, name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("Job file %q already exists: nothing written", name)
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
	e.Printf("Example job file written to %s\n", name)
	return nil
}
