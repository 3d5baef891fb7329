package term

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/open-nomad/open-nomad/api"
)

// Env is the environment of a running command: streams, arguments and general flags.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Args     []string
	general  *general

	unanswered bool // a question got no answer
}

// general holds the flags of every command that calls an agent.
type general struct {
	address, region, namespace, token         string
	caCert, caPath, clientCert, clientKey, sn string
	skipVerify                                *bool // nil if unset
	noColor, forceColor                       bool
	context                                   string
	loaded                                    *cluster // nil until cluster is called
	completing                                bool     // whether a shell completes the command: no token command runs
}

func (g *general) declare(f *flag.FlagSet) {
	f.StringVar(&g.address, "address", "",
		"The `address` of the agent: http(s)://host:port or unix:///path.\nOverrides NOMAD_ADDR. Default http://127.0.0.1:4646.")
	f.StringVar(&g.region, "region", "", "The `region` to forward the request to. Overrides NOMAD_REGION.")
	f.StringVar(&g.namespace, "namespace", "",
		"The `namespace` of the objects, or * to list all namespaces.\nOverrides NOMAD_NAMESPACE. Default \"default\".")
	f.StringVar(&g.token, "token", "", "The secret ID of the ACL `token`. Overrides NOMAD_TOKEN.")
	f.StringVar(&g.caCert, "ca-cert", "", "A PEM `file` with the CA of the agent's certificate.\nOverrides NOMAD_CACERT.")
	f.StringVar(&g.caPath, "ca-path", "", "A `directory` of PEM CA files. Overrides NOMAD_CAPATH.")
	f.StringVar(&g.clientCert, "client-cert", "", "A PEM `file` with your certificate. Overrides NOMAD_CLIENT_CERT.")
	f.StringVar(&g.clientKey, "client-key", "", "A PEM `file` with the key of your certificate. Overrides NOMAD_CLIENT_KEY.")
	f.StringVar(&g.sn, "tls-server-name", "", "The `name` to expect in the agent's certificate. Overrides NOMAD_TLS_SERVER_NAME.")
	f.StringVar(&g.context, "context", "", "The `name` of a context of 'nomad context list'. Overrides NOMAD_CONTEXT.")
	flags := &Flags{f}
	flags.optBoolVar(&g.skipVerify, "tls-skip-verify", "Do not verify the agent's certificate. Overrides NOMAD_SKIP_VERIFY.")
	flags.optBoolVar(&g.skipVerify, "insecure", "The same as -tls-skip-verify.")
	f.BoolVar(&g.noColor, "no-color", false, "Print without color.")
	f.BoolVar(&g.forceColor, "force-color", false, "Print in color even if the output is not a terminal.")
}

// Client returns an API client for the flags, the environment and the context.
func (e *Env) Client() (*api.Client, error) { return e.ClientOf(func(*api.Config) {}) }

// ClientOf is Client with a configuration that edit changes. It overrides the environment,
// and the flags override it.
func (e *Env) ClientOf(edit func(*api.Config)) (*api.Client, error) {
	c, err := api.NewClient(e.Config(edit))
	if err != nil {
		return nil, fmt.Errorf("Error initializing client: %w", err)
	}
	return c, nil
}

// Config returns the configuration of the client that ClientOf returns.
func (e *Env) Config(edit func(*api.Config)) *api.Config {
	g := e.general
	cfg := g.clientConfig()
	edit(cfg)
	set := func(to *string, v string) {
		if v != "" {
			*to = v
		}
	}
	set(&cfg.Address, g.address)
	set(&cfg.Region, g.region)
	set(&cfg.Namespace, g.namespace)
	set(&cfg.SecretID, g.token)
	set(&cfg.TLSConfig.CACert, g.caCert)
	set(&cfg.TLSConfig.CAPath, g.caPath)
	set(&cfg.TLSConfig.ClientCert, g.clientCert)
	set(&cfg.TLSConfig.ClientKey, g.clientKey)
	set(&cfg.TLSConfig.TLSServerName, g.sn)
	if g.skipVerify != nil {
		cfg.TLSConfig.Insecure = *g.skipVerify
	}
	return cfg
}

// Namespace returns the namespace from the flag, the environment, the context, or "default".
func (e *Env) Namespace() string {
	return cmp.Or(e.ChosenNamespace(), "default")
}

// ChosenNamespace returns the namespace from the flag, the environment or the context, "" if unset.
func (e *Env) ChosenNamespace() string {
	return cmp.Or(e.general.namespace, e.general.clientConfig().Namespace)
}

// NamespaceFlag returns the namespace of the flag, "" if unset.
func (e *Env) NamespaceFlag() string { return e.general.namespace }

// AddressFlag returns the address of the flag, "" if unset.
func (e *Env) AddressFlag() string { return e.general.address }

// SetAddress sets the address as the flag does. A context of another address is not used then.
func (e *Env) SetAddress(address string) {
	e.general.address, e.general.loaded = address, nil
	if ignored := e.general.cluster(context.Background()).ignored; ignored != "" {
		e.Warnf("%s", ignored)
	}
}

// RegionFlag returns the region of the flag, "" if unset.
func (e *Env) RegionFlag() string { return e.general.region }

// Region returns the region from the flag, the environment or the context, "" if unset.
func (e *Env) Region() string { return cmp.Or(e.general.region, e.general.clientConfig().Region) }

// Arg returns argument i, or "" if there are fewer arguments.
func (e *Env) Arg(i int) string {
	if i >= len(e.Args) {
		return ""
	}
	return e.Args[i]
}

// Println writes a line to standard output.
func (e *Env) Println(a ...any) { fmt.Fprintln(e.Out, a...) }

// Printf writes formatted text to standard output.
func (e *Env) Printf(format string, a ...any) { fmt.Fprintf(e.Out, format, a...) }

// Warnf writes a line to standard error.
func (e *Env) Warnf(format string, a ...any) { fmt.Fprintf(e.Err, format+"\n", a...) }

// IsTerminal reports whether standard output is a terminal.
func (e *Env) IsTerminal() bool {
	f, ok := e.Out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// InputIsTerminal reports whether standard input is a terminal, so that somebody can answer a question.
func (e *Env) InputIsTerminal() bool {
	f, ok := e.In.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Color reports whether to print in color.
func (e *Env) Color() bool {
	switch {
	case e.general.noColor || os.Getenv("NOMAD_CLI_NO_COLOR") != "" || os.Getenv("NO_COLOR") != "":
		return false
	case e.general.forceColor || os.Getenv("NOMAD_CLI_FORCE_COLOR") != "":
		return true
	}
	return e.IsTerminal()
}

// ColorErr reports whether to print in color to standard error.
func (e *Env) ColorErr() bool {
	if e.general.forceColor || os.Getenv("NOMAD_CLI_FORCE_COLOR") != "" {
		return e.Color()
	}
	f, ok := e.Err.(*os.File)
	return e.Color() && ok && term.IsTerminal(int(f.Fd()))
}

// Bold returns text in bold if color is on.
func (e *Env) Bold(text string) string {
	if !e.Color() {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}
