// Package contexts implements the commands nomad context list, use, show, set and delete.
// They read and edit the file of package contextfile and call no agent.
package contexts

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/command/contextfile"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{listCommand(), useCommand(), showCommand(), setCommand(), deleteCommand()}
}

func path() string { return contextfile.Path(os.Getenv) }

// entry is a context as the commands print it.
type entry struct {
	Name, Address, Region, Namespace                     string
	CACert, CAPath, ClientCert, ClientKey, TLSServerName string `json:",omitempty"`
	Token                                                string
	Current                                              bool
}

func entryOf(c *contextfile.Context, current string) entry {
	return entry{Name: c.Name, Address: c.Address, Region: c.Region, Namespace: c.Namespace, CACert: c.CACert, CAPath: c.CAPath,
		ClientCert: c.ClientCert, ClientKey: c.ClientKey, TLSServerName: c.TLSServerName, Token: c.TokenSource(), Current: c.Name == current}
}

func listCommand() term.Command {
	return term.Command{
		Name: "context list", Local: true, Short: "List the contexts",
		Long: `Lists the clusters of the file of contexts. A star marks the current one, which commands use unless
-context, NOMAD_CONTEXT, -address or NOMAD_ADDR name another.

    nomad context list`,
		Setup: func(f *term.Flags) term.Run {
			var formats term.Formats
			formats.Declare(f)
			return func(_ context.Context, e *term.Env) error {
				file, err := contextfile.Load(path())
				if err != nil {
					return err
				}
				all := []entry{}
				for _, c := range file.Contexts {
					all = append(all, entryOf(c, file.Current))
				}
				if formats.Wanted() {
					return formats.Print(e, all)
				}
				if len(all) == 0 {
					e.Println("No contexts: add one with 'nomad context set'")
					return nil
				}
				rows := []string{"Name|Current|Address|Region|Namespace|Token"}
				for _, c := range all {
					star := ""
					if c.Current {
						star = "*"
					}
					rows = append(rows, term.Row(c.Name, star, c.Address, c.Region, c.Namespace, c.Token))
				}
				e.Println(term.BlankTable(rows))
				return nil
			}
		},
	}
}

func showCommand() term.Command {
	return term.Command{
		Name: "context show", Local: true, Args: "[name]", MaxArgs: 1, Short: "Show a context and where its token comes from",
		Long: `Shows the context with the name, by default the one of NOMAD_CONTEXT or the current one. The token
itself is never printed.

    nomad context show prod`,
		Setup: func(f *term.Flags) term.Run {
			var formats term.Formats
			formats.Declare(f)
			return func(_ context.Context, e *term.Env) error {
				file, err := contextfile.Load(path())
				if err != nil {
					return err
				}
				name := e.Arg(0)
				if name == "" {
					name = os.Getenv("NOMAD_CONTEXT")
				}
				c, err := file.Context(name)
				if err != nil {
					return err
				}
				if c == nil {
					return errors.New("no context is current: select one with 'nomad context use'")
				}
				x := entryOf(c, file.Current)
				if formats.Wanted() {
					return formats.Print(e, x)
				}
				e.Println(term.Pairs([]string{
					term.Row("Name", x.Name), term.Row("Current", x.Current), term.Row("Address", x.Address), term.Row("Region", x.Region),
					term.Row("Namespace", x.Namespace), term.Row("CA certificate", x.CACert), term.Row("CA directory", x.CAPath),
					term.Row("Client certificate", x.ClientCert), term.Row("Client key", x.ClientKey),
					term.Row("TLS server name", x.TLSServerName), term.Row("Token", x.Token), term.Row("File", path()),
				}))
				return nil
			}
		},
	}
}

func useCommand() term.Command {
	return term.Command{
		Name: "context use", Local: true, Args: "[name]", MaxArgs: 1, Short: "Select the context that commands use",
		Long: `Makes a context the current one. With -none, no context is current, and commands call the agent of
NOMAD_ADDR or of this machine.

    nomad context use prod`,
		Setup: func(f *term.Flags) term.Run {
			none := f.Bool("none", false, "Use no context.")
			return func(_ context.Context, e *term.Env) error {
				if (e.Arg(0) == "") != *none {
					return errors.New("give the name of a context, or -none")
				}
				if err := contextfile.Edit(path(), func(w *contextfile.Editor) error { return w.Use(e.Arg(0)) }); err != nil {
					return err
				}
				if *none {
					e.Println("No context is current")
					return nil
				}
				e.Printf("Context %q is current\n", e.Arg(0))
				return nil
			}
		},
	}
}

func deleteCommand() term.Command {
	return term.Command{
		Name: "context delete", Local: true, Args: "<name>", MinArgs: 1, MaxArgs: 1, Short: "Delete a context",
		Long: `Removes a context from the file. The files and the token that it names stay.

    nomad context delete staging`,
		Setup: func(*term.Flags) term.Run {
			return func(_ context.Context, e *term.Env) error {
				if err := contextfile.Edit(path(), func(w *contextfile.Editor) error { return w.Delete(e.Arg(0)) }); err != nil {
					return err
				}
				e.Printf("Successfully deleted context %q!\n", e.Arg(0))
				return nil
			}
		},
	}
}

// attributes are the flags of context set: the flag is the attribute with dashes.
var attributes = []struct{ name, usage string }{
	{"address", "The `address` of the agent: http(s)://host:port or unix:///path. Required for a new context."},
	{"region", "The `region`."},
	{"namespace", "The `namespace`."},
	{"ca_cert", "A PEM `file` with the CA of the agent's certificate."},
	{"ca_path", "A `directory` of PEM CA files."},
	{"client_cert", "A PEM `file` with your certificate."},
	{"client_key", "A PEM `file` with the key of your certificate."},
	{"tls_server_name", "The `name` to expect in the agent's certificate."},
	{"token_file", "A `file` with the token. It must have mode 0600."},
}

func setCommand() term.Command {
	return term.Command{
		Name: "context set", Local: true, Args: "<name>", MinArgs: 1, MaxArgs: 1, Short: "Add or change a context",
		Long: `Writes the given settings of a context. Settings without a flag stay; an empty value removes one. The
token is never written to the file. -token-file names another file with the token. -token-command names a
program that prints it; repeat the flag for each word of the command.

    nomad context set -address=https://nomad.example.com:4646 -ca-cert=ca.pem -use prod
    nomad context set -token-command=pass -token-command=show -token-command=nomad/prod prod`,
		Setup: func(f *term.Flags) term.Run {
			for _, a := range attributes {
				f.String(strings.ReplaceAll(a.name, "_", "-"), "", a.usage)
			}
			command := f.Strings("token-command", "A `word` of the command that prints the token; repeated for each word.")
			use := f.Bool("use", false, "Make the context the current one.")
			return func(_ context.Context, e *term.Env) error {
				values, err := given(f, *command)
				if err != nil {
					return err
				}
				name := e.Arg(0)
				err = contextfile.Edit(path(), func(w *contextfile.Editor) error { return set(w, name, values, *use) })
				if err != nil {
					return err
				}
				e.Printf("Successfully set context %q!\n", name)
				return nil
			}
		},
	}
}

// set edits a context. A token by a file replaces one by a command, and the reverse.
func set(w *contextfile.Editor, name string, values map[string]contextfile.Value, use bool) error {
	if v := values["token_file"]; v.Text != "" {
		values["token_command"] = contextfile.Value{}
	} else if len(values["token_command"].List) > 0 {
		values["token_file"] = contextfile.Value{}
	}
	if _, err := w.File.Context(name); err != nil && values["address"].Text == "" {
		return fmt.Errorf("a new context needs an address: add -address")
	}
	order := []string{}
	for _, a := range attributes {
		order = append(order, a.name)
	}
	w.Set(name, values, append(order, "token_command"))
	if !use {
		return nil
	}
	return w.Use(name)
}

// given returns the settings that have a flag. Paths become absolute.
func given(f *term.Flags, command []string) (map[string]contextfile.Value, error) {
	values := map[string]contextfile.Value{}
	var failed error
	f.Visit(func(fl *flag.Flag) {
		name, text := strings.ReplaceAll(fl.Name, "-", "_"), fl.Value.String()
		switch name {
		case "use":
			return
		case "token_command":
			if len(command) > 1 || command[0] != "" { // a single empty word removes it
				values[name] = contextfile.Value{List: command}
				return
			}
			text = ""
		case "ca_cert", "ca_path", "client_cert", "client_key", "token_file":
			if text != "" {
				abs, err := filepath.Abs(text)
				if err != nil {
					failed = err
				}
				text = abs
			}
		}
		values[name] = contextfile.Value{Text: text}
	})
	if values["token_file"].Text != "" && len(values["token_command"].List) > 0 {
		return nil, errors.New("-token-file and -token-command are mutually exclusive")
	}
	return values, failed
}
