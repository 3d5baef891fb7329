package job

import (
	"cmp"
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

//go:embed connect.nomad.hcl
var exampleConnect []byte

//go:embed connect-short.nomad.hcl
var exampleConnectShort []byte

const defaultSpec = "example.nomad.hcl"

func initCommand() term.Command {
	return term.Command{
		Name: "job init", Alias: []string{"init"}, Args: "[filename]", MaxArgs: 1,
		Short: "Write an example jobspec",
		Setup: func(f *term.Flags) term.Run {
			short := f.Bool("short", false, "Write the example without comments.")
			connect := f.Bool("connect", false, "Write an example of the service mesh of Consul.")
			list := f.Bool("list-templates", false, "List the job templates, which are variables below "+templates+".")
			template := f.String("template", "", "Write the job template with this `name` instead of the example.")
			return func(ctx context.Context, e *term.Env) error {
				name, text := cmp.Or(e.Arg(0), defaultSpec), example
				built := *short || *connect // an example of this program
				switch {
				case built && (*list || *template != "") || *list && *template != "":
					return errors.New("-template and -list-templates exclude each other, -short and -connect")
				case *list:
					return listTemplates(ctx, e)
				case *template != "":
					var err error
					if text, err = jobTemplate(ctx, e, *template); err != nil {
						return err
					}
				case *connect && *short:
					text = exampleConnectShort
				case *connect:
					text = exampleConnect
				case *short:
					text = exampleShort
				}
				return writeNew(e, name, text)
			}
		},
	}
}

// writeNew creates a file. An existing file is an error.
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
