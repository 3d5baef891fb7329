package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/access"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/command/agent/parse"
	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/endpoint"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/profile"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	plugins "github.com/open-nomad/open-nomad/plugins/host"
	"github.com/open-nomad/open-nomad/ui"
)

// Agent is an agent that listens but does not run yet.
type Agent struct {
	set      *config.Settings
	reload   func() (*config.Settings, error) // reads the flags and files again
	turn     sync.Mutex                       // held during a reload
	log      *slog.Logger
	level    *slog.LevelVar
	logFile  *logFile // nil for none
	monitor  *monitor.Source
	profiles *profile.Source
	syslog   *syslogSink // nil for none
	tel      *telemetry
	certs    *certs.Store
	data     *dataDir
	audit    *audit.Log
	http     []net.Listener
	addr     string // advertised address of the HTTP API
	// httpLimit counts the connections of the HTTP API.
	httpLimit *connlimit.Limit

	server *server.Server // nil if not enabled
	client *client.Client // nil if not enabled
	super  *supervise.Client
	// plugins are the external drivers; nil without a client.
	plugins *plugins.Host
	api     *httpapi.Server

	consul consulParts
	vault  []*vault.Cluster // that the client detects

	signals <-chan os.Signal // signals that stop the agent; nil if not watched
}

// New makes an agent. On error it releases everything that it opened. reload, which may be nil,
// reads the settings again. Logs go to w.
func New(set *config.Settings, reload func() (*config.Settings, error), w io.Writer) (*Agent, error) {
	a := &Agent{set: set, reload: reload}
	if err := a.open(w); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *Agent) open(w io.Writer) (err error) {
	if a.set.Name == "" {
		if a.set.Name, err = os.Hostname(); err != nil {
			return fmt.Errorf("name of this machine: %w", err)
		}
	}
	if a.logFile, err = openLogFile(a.set); err != nil {
		return err
	}
	if a.logFile != nil {
		w = io.MultiWriter(w, a.logFile)
	}
	a.monitor, a.profiles = monitor.New(a.monitorConfig()), profile.New(a.set.EnableDebug)
	if a.syslog, err = openSyslog(a.set, "", ""); err != nil {
		return err
	}
	if a.log, a.level, err = newLog(w, a.set, a.monitor, a.syslog); err != nil {
		return err
	}
	if keys := a.set.RPC.Ignored(); len(keys) > 0 {
		a.log.Warn("the rpc block contains unknown keys, which are ignored", "keys", keys)
	}
	if keys := a.set.IgnoredVault(); len(keys) > 0 {
		a.log.Warn("the vault blocks contain keys that have no effect, which are ignored", "keys", keys)
	}
	if a.tel, err = newTelemetry(a.set, a.log); err != nil {
		return err
	}
	if a.certs, err = certs.Open(a.set.CertsConfig()); err != nil {
		return err
	}
	a.tellExpiry(a.set)
	if a.data, err = a.openData(); err != nil {
		return err
	}
	if err := a.listenHTTP(); err != nil {
		return err
	}
	if err := a.openAudit(); err != nil {
		return err
	}
	if err := a.openConsul(); err != nil {
		return err
	}
	if a.set.Server.Enabled {
		if err := a.openServer(); err != nil {
			return err
		}
	}
	maxBody, err := a.set.MaxBody()
	if err != nil {
		return err
	}
	site, err := ui.New(a.set.Site())
	if err != nil {
		return err
	}
	a.warnHeaders()
	a.api = httpapi.New(httpapi.Config{
		Config: web.Config{
			RPC:     a,
			Region:  a.set.Region,
			MaxBody: maxBody,
			Headers: a.set.HTTPAPIResponseHeaders,
			Hosts:   a.set.HostNames(),
			Origins: a.set.HTTPAPIAllowedOrigins,
			Callers: a,
			Methods: endpoint.New(endpoint.Config{}).Methods(),
			ACL:     a.set.ACL.Enabled,
			Audit:   a.audit,
			Log:     a.log.With(monitor.ModuleKey, "http"),
		},
		Agent: a, UI: site, Disks: a.disks(), Debug: a.set.EnableDebug, Members: a.members(), Keys: a.gossipKeys(), Unserved: a.unserved(),
		OpenMetrics: a.set.Telemetry.AllowAnonymousMetrics, Parse: parse.New().Parse,
	})
	if a.set.Client.Enabled {
		if err := a.openClient(); err != nil {
			return err
		}
	}
	a.advertise(a.set)
	return nil
}

// warnHeaders warns about a response header that allows other origins in Nomad, but not here.
func (a *Agent) warnHeaders() {
	for name := range a.set.HTTPAPIResponseHeaders {
		if strings.EqualFold(name, "Access-Control-Allow-Origin") {
			a.log.Warn("http_api_response_headers: the header does not allow requests of other origins: list the "+
				"origins in http_api_allowed_origins", "header", name)
		}
	}
}

// monitorConfig returns the log file for exports.
func (a *Agent) monitorConfig() monitor.Config {
	if a.logFile == nil {
		return monitor.Config{}
	}
	path := a.logFile.path
	return monitor.Config{OpenLog: func() (*os.File, error) { return os.Open(path) }}
}

func (a *Agent) openData() (*dataDir, error) {
	if a.set.Dev && a.set.DataDir == "" {
		return tempDataDir()
	}
	return openDataDir(a.set.DataDir)
}

// listenHTTP opens the listeners of the API and determines its advertised address.
func (a *Agent) listenHTTP() error {
	limit, err := connlimit.Share(a.set.Limits.HTTPMaxConnsPerClient)
	if err != nil {
		return err
	}
	a.httpLimit = limit
	for _, host := range a.set.HTTPHosts() {
		ln, err := listen("HTTP", host, a.set.Ports.HTTP)
		if err != nil {
			return err
		}
		reserve, err := connlimit.NewReserve(ln, a.refuseFull)
		if err != nil {
			ln.Close()
			return err
		}
		a.http = append(a.http, a.limitConns(reserve, limit))
	}
	bound := a.http[0].Addr().(*net.TCPAddr)
	for _, ln := range a.http { // other machines cannot use the loopback address
		if addr := ln.Addr().(*net.TCPAddr); bound.IP.IsLoopback() && !addr.IP.IsLoopback() {
			bound = addr
		}
	}
	a.addr, err = a.set.HTTPAddr(bound.IP.String(), bound.Port)
	return err
}

func (a *Agent) openServer() error {
	cfg, err := a.set.ServerConfig(a.data.path)
	if err != nil {
		return err
	}
	if err := a.set.KeepLogBackend(cfg.ServerDir(), a.log); err != nil {
		return err
	}
	cfg.LogStore.Name = a.set.Server.RaftLogstore.Backend
	a.serverConsul(&cfg)
	cfg.TLS, cfg.Audit, cfg.Monitor, cfg.Profiles = a.certs, a.audit, a.monitor, a.profiles
	if a.server, err = server.New(cfg, a.log.With(monitor.ModuleKey, "nomad")); err != nil {
		return err
	}
	a.tel.atRead = a.server.JobGauges
	return nil
}

// openClient makes the client and its drivers. The supervisor of the drivers is found or started
// when the first task needs it.
func (a *Agent) openClient() error {
	cfg, err := a.set.ClientConfig(a.data.path, a.addr)
	if err != nil {
		return err
	}
	if keys := a.set.UnknownOptions(); len(keys) > 0 {
		a.log.Warn("client.options contains unknown keys", "keys", keys)
	}
	if labels := a.set.AbsentPlugins(); len(labels) > 0 {
		a.log.Warn("plugin blocks without a program in plugin_dir: the node does not have these drivers", "drivers", labels)
	}
	a.super = supervise.NewClient(filepath.Join(cfg.StateDir, "supervise"), a.log.With(monitor.ModuleKey, "client"))
	cfg.DNS.Keeper = a.super
	a.clientConsul(&cfg.Consul)
	if err := a.openVault(); err != nil {
		return err
	}
	cfg.Vault = a.vault
	cfg.OwnDirs = a.ownDirs(cfg.StateDir, cfg.AllocDir)
	cfg.Fingerprint.Reserved.Agent = a.ownPorts()
	list, err := a.drivers(cfg.OwnDirs)
	if err != nil {
		return err
	}
	external, err := a.external(&cfg)
	if err != nil {
		return err
	}
	parts := client.Parts{Drivers: append(list, external...), Devices: a.devices(),
		API: a.api.TaskSocket(), TLS: a.certs, Monitor: a.monitor, Profiles: a.profiles,
		Log: a.log.With(monitor.ModuleKey, "client")}
	if a.server != nil {
		parts.Server = a.server
	}
	if a.client, err = client.New(cfg, parts); err != nil {
		return err
	}
	if at := barrier(cfg.AllocDir); at != "" {
		a.log.Warn("tasks that run as another user cannot access their files: make the directory searchable (chmod o+x)", "dir", at)
	}
	return nil
}

// Addr returns the advertised address of the HTTP API.
func (a *Agent) Addr() string { return a.addr }

// Call makes an RPC to the server of this agent, or else to a server of the client. A client
// handles methods for its own node itself.
func (a *Agent) Call(ctx context.Context, method string, req, resp any) error {
	return a.to(method).Call(ctx, method, req, resp)
}

// to returns the handler of a method.
func (a *Agent) to(method string) web.RPC {
	if a.server != nil {
		return a.server
	}
	if local := a.client.Local(method); local != nil {
		return local
	}
	return a.client.Servers()
}

// Stream opens a streaming RPC, as Call does.
func (a *Agent) Stream(ctx context.Context, method string) (*rpc.Stream, error) {
	return a.to(method).Stream(ctx, method)
}

// Access returns the identity and the rights of the bearer of a token. Without a server in this
// agent, the client asks its servers.
func (a *Agent) Access(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	if a.server != nil {
		return a.server.Access(ctx, token)
	}
	return a.client.Access(ctx, token)
}

// AccessNow is Access with the state of the leader, without the cache of this agent.
func (a *Agent) AccessNow(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	return access.New(access.Config{Servers: leader{a}, Region: a.set.Region, Enabled: a.set.ACL.Enabled}).Caller(ctx, token)
}

// leader sends reads to the leader.
type leader struct{ agent *Agent }

// Call makes a call that only the leader may answer.
func (l leader) Call(ctx context.Context, method string, req, resp any) error {
	if q, ok := req.(interface{ Query() *message.QueryOptions }); ok {
		q.Query().AllowStale = false
	}
	return l.agent.Call(ctx, method, req, resp)
}

// Run runs the agent until ctx ends or a component fails. The client stops first, after a drain if the
// configuration asks for it, then the API, then the server.
func (a *Agent) Run(ctx context.Context) error {
	parts, endParts := context.WithCancel(context.WithoutCancel(ctx))
	defer endParts()
	group, failed := errgroup.WithContext(parts)
	if a.server != nil {
		group.Go(func() error { return a.ended("server", parts, a.server.Run(parts)) })
	}
	group.Go(func() error { return a.ended("telemetry", parts, a.runTelemetry(parts)) })
	if a.client != nil && a.set.Client.ConsulAPI.Address != "" {
		group.Go(func() error { return a.ended("Consul API", parts, a.runConsulAPI(parts)) })
	}
	if a.consul.services != nil {
		group.Go(func() error { return a.ended("registration in Consul", parts, a.runConsul(parts)) })
	}
	for _, ln := range a.http {
		group.Go(func() error {
			a.awaitRestore(parts)
			return a.ended("HTTP API", parts, a.serveHTTP(parts, ln))
		})
	}
	ending, end := context.WithCancel(ctx)
	defer end()
	attached, detach := context.WithCancel(context.WithoutCancel(ctx))
	defer detach()
	ways := make(chan departure, 1)
	go func() {
		ways <- a.depart(ending, failed)
		detach()
	}()
	err := a.runClient(attached, failed)
	end() // the client may have failed
	way := <-ways
	err = errors.Join(err, way.err)
	if way.leaves {
		a.leave()
	}
	endParts()
	err = errors.Join(err, group.Wait())
	return errors.Join(err, a.close())
}

// awaitRestore waits until the client has restored its allocations, because the API does not list
// them earlier. Connections wait in the listener.
func (a *Agent) awaitRestore(ctx context.Context) {
	if a.client == nil {
		return
	}
	select {
	case <-a.client.Restored():
	case <-ctx.Done():
	}
}

// runClient runs the client until ctx ends or another component fails.
func (a *Agent) runClient(ctx, failed context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(failed, cancel)()
	if a.client == nil {
		<-ctx.Done()
		return nil
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer giveUp(nil)
	if limit := a.set.JoinLimit(); limit > 0 {
		waiting.Go(func() {
			if err := a.joined(ctx, limit); err != nil {
				giveUp(err)
			}
		})
	}
	err := a.ended("client", ctx, a.client.Run(ctx))
	if cause := context.Cause(ctx); errors.Is(cause, errNoServer) {
		return cause
	}
	return err
}

// errNoServer means that the client could not join within its retry limit.
var errNoServer = errors.New("the client could not register with a server")

// joined returns an error if no server has accepted the client within the limit.
func (a *Agent) joined(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-a.client.Ready():
	case <-ctx.Done():
	case <-timer.C:
		return fmt.Errorf("%w within %v: retry_max times retry_interval of client.server_join", errNoServer, limit)
	}
	return nil
}

// ended drops the error of a component that stopped because ctx ended.
func (a *Agent) ended(part string, ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", part, err)
}

// close releases what New opened, in reverse order.
func (a *Agent) close() error {
	var errs []error
	if a.plugins != nil {
		errs = append(errs, a.plugins.Close())
	}
	if a.super != nil {
		errs = append(errs, a.closeSupervisor())
	}
	for _, ln := range a.http {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if a.server != nil {
		errs = append(errs, a.server.Close())
	}
	errs = append(errs, a.audit.Close())
	if a.data != nil {
		errs = append(errs, a.data.close())
	}
	if a.tel != nil {
		a.tel.close()
	}
	if a.syslog != nil {
		errs = append(errs, a.syslog.close())
	}
	if a.logFile != nil {
		errs = append(errs, a.logFile.close())
	}
	return errors.Join(errs...)
}

// closeSupervisor disconnects from the supervisor, which keeps running while it has tasks. A -dev
// agent shuts it down together with its tasks.
func (a *Agent) closeSupervisor() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if !a.set.Dev {
		return a.super.CloseAndStopIdle(ctx)
	}
	return errors.Join(a.super.Shutdown(ctx), a.super.Close())
}

// banner returns the message that the agent prints after it has started.
func (a *Agent) banner() string {
	var roles []string
	if a.server != nil {
		roles = append(roles, "server (RPC "+a.server.RPCAddr()+")")
	}
	if a.client != nil {
		roles = append(roles, "client (node "+a.client.NodeID()+")")
	}
	keeps := a.data.path
	if a.data.temp {
		keeps = "not kept (-dev)"
	}
	return fmt.Sprintf("==> Nomad agent started: %s\n    API:  %s://%s\n    Data: %s\n", strings.Join(roles, ", "), a.scheme(), a.addr, keeps)
}
