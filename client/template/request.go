package template

import (
	"context"
	"io"
	"net/http"
	"path/filepath"

	"github.com/open-nomad/open-nomad/client/allocdir"
	consulreads "github.com/open-nomad/open-nomad/internal/consul/readproxy"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/render"
	vaultreads "github.com/open-nomad/open-nomad/internal/vault/readproxy"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// socketName is the Task API socket in the secrets directory, which is the working directory of
// the program. A relative path has no trouble with the length limit of socket paths.
const socketName = "api.sock"

// session returns a run of the program for the entries.
func (r *run) session(ctx context.Context, entries []*entry) *session {
	dir := r.s.Dir
	s := &session{
		confined: r.confined, dir: dir.SecretsPath(), open: r.t.deps.Config.DisableFileSandbox,
		paths: []drivers.SidecarPath{
			{Modes: "r", Name: allocdir.LocalName, Beneath: dir.Path()},
			{Modes: "r", Name: allocdir.SecretsName, Beneath: dir.Path()},
			{Modes: "r", Name: allocdir.TmpName, Beneath: dir.Path()},
			{Modes: "r", Name: allocdir.SharedName, Beneath: filepath.Dir(dir.SharedPath())},
		},
		req: r.request(entries),
	}
	s.reads = r.reads()
	// Older kernels cannot restrict TCP. There the program has the network of the task.
	if abi, err := landlock.ABI(); err == nil && abi >= landlock.ABITCP && !s.open {
		s.noTCP = true
	}
	s.content = func(i int, body io.Reader, size int) error { return r.content(entries[i], body, size) }
	s.other = func(f *render.Frame) error { return r.frame(ctx, f, entries) }
	return s
}

// reads returns the proxies of a program.
func (r *run) reads() map[string]http.Handler {
	d, m := &r.t.deps, map[string]http.Handler{}
	if d.Consul != nil {
		m[render.ConsulHost] = &consulreads.Proxy{Agent: d.Consul, Token: d.ConsulToken}
	}
	if d.usesVault() {
		m[render.VaultHost] = vaultreads.New(d.Vault, d.VaultToken)
	}
	return m
}

// usesVault reports whether templates can read Vault.
func (d *Deps) usesVault() bool { return d.Vault != nil && d.VaultToken.Current != nil }

// vaultRequest sets the settings for Vault in a request, or why templates cannot use Vault.
func (r *run) vaultRequest(req *render.Request) {
	d := &r.t.deps
	switch {
	case d.usesVault():
		_, namespace := d.VaultToken.Current()
		req.Vault = &render.Vault{
			Retry: d.Config.VaultRetry, DefaultLease: d.Config.vaultDefaultLease(), Namespace: namespace,
		}
	case d.Vault != nil:
		req.NoVault = render.NoVaultBlock
	}
}

func (r *run) request(entries []*entry) *render.Request {
	cfg, dir, env := &r.t.deps.Config, r.s.Dir, r.s.Env
	req := &render.Request{
		Env: env.Map(), Dir: dir.Path(), Socket: socketName, Token: render.Token(r.currentToken().Reveal()),
		Namespace: r.t.deps.Namespace, Region: env.Var("NOMAD_REGION"),
		Datacenter: env.Expand("${node.datacenter}"), NodeID: env.Expand("${node.unique.id}"), Retry: cfg.NomadRetry,
		Denied: cfg.FunctionDenylist, MaxStale: cfg.MaxStale, BlockQueryWait: cfg.blockQueryWait(),
		Roots: []render.Root{
			{Path: dir.LocalPath(), Names: []string{env.Var("NOMAD_TASK_DIR")}},
			{Path: dir.SecretsPath(), Names: []string{env.Var("NOMAD_SECRETS_DIR")}},
			{Path: filepath.Join(dir.Path(), allocdir.TmpName)},
			{Path: dir.SharedPath(), Names: []string{env.Var("NOMAD_ALLOC_DIR")}},
		},
	}
	if cfg.DisableFileSandbox {
		req.Roots = append(req.Roots, render.Root{Path: "/"})
	}
	if r.t.deps.Consul != nil {
		req.Consul = &render.Consul{Retry: cfg.ConsulRetry, Node: env.Expand("${attr.unique.consul.name}")}
	}
	r.vaultRequest(req)
	req.Kept = r.isBegun() || r.allKept(entries)
	if !req.Kept {
		req.Memory = r.confined.Memory
	}
	for _, e := range entries {
		req.Templates = append(req.Templates, render.Template{
			Text: e.t.EmbeddedTmpl, Source: e.source, LeftDelim: e.t.LeftDelim, RightDelim: e.t.RightDelim,
			ErrorOnMissingKey: e.t.ErrMissingKey, Once: e.t.Once, Wait: e.wait,
			Destination: pathsOf(env, dir).host(e.to), Kept: r.t.keptAs(e.hash) != "",
		})
	}
	return req
}
