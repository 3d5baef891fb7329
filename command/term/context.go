package term

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/contextfile"
)

// cluster is the context that a command uses. Its token is read once.
type cluster struct {
	context *contextfile.Context // nil without a context
	token   string
	err     error
	ignored string // why a context that the user named is not used, or ""
}

// cluster returns the context of the flags, the environment or the file of contexts. An
// address of a flag or the environment that is not that of the context turns it off: its
// token and certificates are sent to its own address only.
func (g *general) cluster(ctx context.Context) *cluster {
	if g.loaded == nil {
		g.loaded = g.load(ctx)
	}
	return g.loaded
}

func (g *general) load(ctx context.Context) *cluster {
	name := cmp.Or(g.context, os.Getenv("NOMAD_CONTEXT"))
	address := cmp.Or(g.address, os.Getenv("NOMAD_ADDR"))
	path := contextfile.Path(os.Getenv)
	f, err := contextfile.Load(path)
	switch {
	case err != nil && name == "" && address != "": // an error in the file does not stop a command that can do without
		return &cluster{}
	case err != nil:
		return &cluster{err: err}
	}
	c, err := f.Context(name)
	switch {
	case err != nil:
		return &cluster{err: err}
	case c == nil:
		return &cluster{}
	case address != "" && !sameAddress(address, c.Address):
		out := &cluster{}
		if name != "" {
			out.ignored = fmt.Sprintf("The context %q is not used: -address or NOMAD_ADDR is the address of another agent", name)
		}
		return out
	}
	out := &cluster{context: c}
	if needed := g.token == "" && os.Getenv("NOMAD_TOKEN") == ""; needed && !(g.completing && len(c.TokenCommand) > 0) {
		out.token, out.err = c.Token(ctx)
	}
	return out
}

func sameAddress(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/"))
}

// clientConfig returns the configuration of the context, with the variables of the
// environment over it.
func (g *general) clientConfig() *api.Config {
	cfg := api.DefaultConfig()
	at := g.cluster(context.Background())
	c := at.context
	if c == nil {
		return cfg
	}
	cfg.Address = c.Address // the same if the environment has one
	cfg.Region, cfg.Namespace = cmp.Or(cfg.Region, c.Region), cmp.Or(cfg.Namespace, c.Namespace)
	cfg.SecretID = cmp.Or(cfg.SecretID, at.token)
	t := cfg.TLSConfig
	t.CACert, t.CAPath = cmp.Or(t.CACert, c.CACert), cmp.Or(t.CAPath, c.CAPath)
	if t.ClientCert == "" && t.ClientKey == "" && g.clientCert == "" && g.clientKey == "" {
		t.ClientCert, t.ClientKey = c.ClientCert, c.ClientKey
	}
	t.TLSServerName = cmp.Or(t.TLSServerName, c.TLSServerName)
	return cfg
}

// contextHint returns the line that names the context after a request failed to connect.
func (g *general) contextHint(err error) string {
	var failed *url.Error
	if g.loaded == nil || g.loaded.context == nil || !errors.As(err, &failed) {
		return ""
	}
	c := g.loaded.context
	return fmt.Sprintf("The address %s is of the context %q in %s: 'nomad context use' selects another one.", c.Address, c.Name,
		contextfile.Path(os.Getenv))
}

// ContextName returns the name of the context that the command uses, or "".
func (e *Env) ContextName() string {
	if c := e.general.cluster(context.Background()).context; c != nil {
		return c.Name
	}
	return ""
}
