package taskhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// The files of the configuration of a proxy.
const (
	bootstrapFile = "envoy_bootstrap.json"     // in the secrets directory
	bootstrapLog  = "envoy_bootstrap.stderr.0" // in the log directory of the allocation
)

// How long a start waits until Consul has the service, and the first pause. Node meta changes both.
const (
	serviceWait      = time.Minute
	servicePause     = time.Second
	metaServiceWait  = "consul.service_preflight_check.timeout"
	metaServicePause = "consul.service_preflight_check.base"
)

// bootstrapHook makes the first configuration of a proxy with the program consul. The program runs confined as the task
// is, with the token of the task's service, which becomes part of the configuration. The token of the client is never
// used. A service without an identity has none: its proxy has the rights of Consul's anonymous token.
type bootstrapHook struct {
	mesh   *connect.Node
	tokens ConsulTokens
	node   *nomad.Node
	dir    *allocdir.Dir
	log    *slog.Logger
}

func newBootstrapHook(c Config) hook.Hook {
	return &bootstrapHook{mesh: c.Mesh, tokens: c.Tokens, node: c.Node, dir: c.Dir, log: c.Log}
}

func (*bootstrapHook) Name() string { return "envoy_bootstrap" }

func (h *bootstrapHook) Prestart(ctx context.Context, req *TaskPrestartRequest, _ *TaskPrestartResponse) error {
	role, ok, err := meshRole(req)
	if err != nil || !ok || !role.Envoy() || req.Running {
		return err
	}
	if h.mesh == nil {
		return errNoMesh
	}
	if req.Dir == nil {
		return errNoDir
	}
	b := h.bootstrap(req, role)
	if err := h.await(ctx, b); err != nil {
		return setupFault(fmt.Errorf("wait for service %q in Consul: %w", role.Service.Name, err))
	}
	config, text, err := b.run(ctx, req, h.log)
	if text != "" {
		if lerr := h.writeLog(text); lerr != nil {
			h.log.Warn("write the log of the program consul", "err", lerr)
		}
	}
	if err == nil {
		err = req.Dir.Secrets().Replace(bootstrapFile, config, req.Dir.Secret())
	}
	if err != nil {
		if text != "" {
			line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
			err = fmt.Errorf("%w: %s", err, untrusted.Line(line, 256))
		}
		return setupFault(fmt.Errorf("make the configuration of the proxy with the program consul: %w", err))
	}
	return nil
}

// bootstrap returns the run of the program for a task.
func (h *bootstrapHook) bootstrap(req *TaskPrestartRequest, role connect.Role) *bootstrap {
	s := role.Service
	w := service.OfGroup(req.Alloc, h.node, req.Env.Var("NOMAD_REGION"), req.Network)
	b := &bootstrap{mesh: h.mesh, gateway: role.Gateway(), grpc: "unix://" + req.Env.Var("NOMAD_ALLOC_DIR") + "/tmp/" + connect.GRPCSocket}
	b.id = catalog.ID(req.Alloc.ID, catalog.GroupWorkload(req.Alloc.TaskGroup), w.Env.Expand(s.Name), w.Env.Expand(s.PortLabel))
	if role.Sidecar() {
		b.id = reconcile.SidecarID(b.id)
	}
	if req.Network == nil {
		b.grpc = h.mesh.GRPCAddress()
	}
	b.admin, b.ready, _ = taskenv.Envoy(req.Alloc, s)
	if s.Identity != nil && h.tokens != nil {
		b.token = h.tokens.Token(s.Identity.Name, "")()
	}
	return b
}

// await waits until Consul has the service of the proxy, for which the program asks.
func (h *bootstrapHook) await(ctx context.Context, b *bootstrap) error {
	limit, pause := durationOf(h.node, metaServiceWait, serviceWait), durationOf(h.node, metaServicePause, servicePause)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not registered within %s", limit))
	defer cancel()
	again := backoff.Backoff{Min: pause, Max: 2 * pause}
	for {
		registered, err := h.registered(ctx, b)
		if registered {
			return nil
		}
		if again.Wait(ctx) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// registered reports whether Consul has the service. It asks with the token of the service, which can read it.
func (h *bootstrapHook) registered(ctx context.Context, b *bootstrap) (bool, error) {
	ctx, cancel := h.mesh.Agent.Within(ctx)
	defer cancel()
	found := false
	list := consul.List{Agent: h.mesh.Agent, Path: "/v1/agent/services", Token: b.token}
	err := consul.Each(ctx, list, func(id string, _ *struct{}) { found = found || id == b.id })
	return found, consul.Redact(err)
}

// durationOf returns a duration in the meta of the node, or the default.
func durationOf(n *nomad.Node, key string, otherwise time.Duration) time.Duration {
	if n == nil {
		return otherwise
	}
	if d, err := time.ParseDuration(n.Meta[key]); err == nil && d > 0 {
		return d
	}
	return otherwise
}

// writeLog writes what the program reported to the logs of the allocation, which every task can read.
func (h *bootstrapHook) writeLog(text string) error {
	shared, err := h.dir.Shared()
	if err != nil {
		return err
	}
	defer shared.Close()
	logs, err := shared.Sub(allocdir.LogsName)
	if err != nil {
		return err
	}
	defer logs.Close()
	return logs.Replace(bootstrapLog, []byte(text), safefs.File{Mode: 0o644, UID: -1, GID: -1})
}
