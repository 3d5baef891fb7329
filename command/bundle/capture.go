package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/command/vaultenv"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/version"
)

// capture is one run of the command.
type capture struct {
	*settings
	*target
	client      *api.Client
	consulAgent *consul.Agent        // nil without Consul
	vault       *vaultenv.Connection // nil without Vault
	dir         *dir
	env         *term.Env
	began       time.Time

	mu     sync.Mutex
	failed []string
	denied map[string]bool // what may not be read
}

// summary is the index of a bundle.
type summary struct {
	Name        string
	Version     string
	Started     time.Time
	Ended       time.Time
	Interrupted bool
	Flags       map[string]string
	Files       []file
	Errors      []string // failed captures
	Denied      []string // captures that the caller's rights do not allow
}

// once maps the files of cluster/ to their routes.
var once = map[string]string{
	"agent-self.json": "/v1/agent/self", "members.json": "/v1/agent/members", "namespaces.json": "/v1/namespaces",
	"regions.json": "/v1/regions",
	"leader.json":  "/v1/status/leader", "peers.json": "/v1/status/peers", "schedulers.json": "/v1/agent/schedulers",
}

// each maps the files of nomad/NNNN/ to their routes.
var each = map[string]string{
	"allocations.json": "/v1/allocations?namespace=*&resources=true", "deployments.json": "/v1/deployments?namespace=*",
	"evaluations.json": "/v1/evaluations?namespace=*",
	"jobs.json":        "/v1/jobs?namespace=*", "nodes.json": "/v1/nodes?resources=true&os=true", "node-pools.json": "/v1/node/pools",
	"services.json":    "/v1/services?namespace=*",
	"csi-plugins.json": "/v1/plugins?type=csi", "csi-volumes.json": "/v1/volumes?type=csi&namespace=*",
	"host-volumes.json": "/v1/volumes?type=host&namespace=*", "metrics.json": "/v1/metrics", "license.json": "/v1/operator/license",
	"operator-autopilot-health.json": "/v1/operator/autopilot/health", "operator-raft.json": "/v1/operator/raft/configuration",
	"operator-scheduler.json": "/v1/operator/scheduler/configuration", "operator-keyring.json": "/v1/operator/keyring/keys",
}

// run captures until the duration or ctx ends.
func (p *capture) run(ctx context.Context) {
	p.began = time.Now()
	if text, err := jsonOf(p.flags); err == nil {
		p.failure("cli-flags.json", p.dir.write("cluster/cli-flags.json", text))
	}
	during, stop := context.WithTimeout(ctx, p.duration)
	defer stop()
	var streams sync.WaitGroup
	for _, a := range p.agents() {
		streams.Go(func() { p.log(during, a) })
		if p.exportFile || p.lookback > 0 {
			streams.Go(func() { p.export(ctx, a) })
		}
	}
	if topics := list(p.topics); len(topics) > 0 {
		streams.Go(func() { p.events(during, topics) })
	}
	for name, route := range once {
		p.read(ctx, "cluster/"+name, route)
	}
	p.parallel(p.agents(), func(a agent) { p.host(ctx, a) })
	streams.Go(func() {
		repeat(during, p.pprofEvery, func(n int) { p.parallel(p.agents(), func(a agent) { p.profiles(ctx, a, n) }) })
	})
	if p.consulAgent != nil {
		streams.Go(func() { repeat(during, p.interval, func(n int) { p.readConsul(ctx, n) }) })
	}
	if p.vault != nil {
		streams.Go(func() { repeat(during, p.interval, func(n int) { p.readVault(ctx, n) }) })
	}
	repeat(during, p.interval, func(n int) {
		for name, route := range each {
			p.read(ctx, fmt.Sprintf("nomad/%04d/%s", n, name), route)
		}
		p.storage(ctx, n)
	})
	<-during.Done()
	streams.Wait()
}

// repeat calls do at once and after each interval, until ctx ends.
func repeat(ctx context.Context, every time.Duration, do func(n int)) {
	do(0)
	if every == 0 {
		return
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			do(n)
		}
	}
}

// agent is a server or a node of the capture.
type agent struct{ server, node string }

// dir returns the directory of the agent.
func (a agent) dir() string {
	if a.node != "" {
		return "client/" + a.node
	}
	return "server/" + url.PathEscape(a.server)
}

func (p *capture) agents() []agent {
	var out []agent
	for _, s := range p.servers {
		out = append(out, agent{server: s})
	}
	for _, n := range p.nodes {
		out = append(out, agent{node: n})
	}
	return out
}

// parallel calls do for each agent, for a few at a time.
func (p *capture) parallel(all []agent, do func(agent)) {
	var running sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for _, a := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			do(a)
		})
	}
	running.Wait()
}

func (p *capture) query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{AllowStale: p.stale}).WithContext(ctx)
}

// read captures the response of a route.
func (p *capture) read(ctx context.Context, name, route string) {
	body, err := p.client.Raw().Response(route, p.query(ctx))
	if err == nil {
		err = errors.Join(p.dir.json(name, body), body.Close())
	} else if api.StatusCode(err) == http.StatusTooManyRequests { // unhealthy, with the same body
		var unhealthy api.UnexpectedResponseError
		if errors.As(err, &unhealthy) {
			err = p.dir.json(name, bytes.NewReader([]byte(unhealthy.Body())))
		}
	}
	p.done(ctx, name, err)
}

func (p *capture) host(ctx context.Context, a agent) {
	name := a.dir() + "/agent-host.json"
	h, err := p.client.Agent().Host(a.server, a.node, p.query(ctx))
	if err == nil {
		var text []byte
		if text, err = jsonOf(h); err == nil {
			err = p.dir.json(name, bytes.NewReader(text))
		}
	}
	p.done(ctx, name, err)
}

// log follows the log of an agent.
func (p *capture) log(ctx context.Context, a agent) {
	name := a.dir() + "/monitor.log"
	lines, err := p.client.Agent().FollowLog(api.MonitorOptions{NodeID: a.node, ServerID: a.server, LogLevel: p.level, Location: p.location},
		p.query(ctx))
	p.stream(ctx, feed{name, lines, p.dir.scrub.text}, err)
}

// export reads the stored log of an agent.
func (p *capture) export(ctx context.Context, a agent) {
	name, o := a.dir()+"/monitor_export.log", api.MonitorExportOptions{NodeID: a.node, ServerID: a.server, OnDisk: p.exportFile}
	if !p.exportFile {
		o.ServiceName, o.LogsSince = "nomad", p.lookback.String()
	}
	lines, err := p.client.Agent().ReadLog(o, p.query(ctx))
	p.stream(ctx, feed{name, lines, p.dir.scrub.text}, err)
}

// events follows topics.
func (p *capture) events(ctx context.Context, topics []string) {
	params := url.Values{"index": {strconv.FormatInt(p.index, 10)}, "namespace": {"*"}, "topic": topics}
	lines, err := p.client.Raw().Response("/v1/event/stream?"+params.Encode(), p.query(ctx))
	p.stream(ctx, feed{"cluster/eventstream.json", lines, func(line string) string {
		text, ok := p.dir.scrub.json([]byte(line))
		if !ok {
			return "{}"
		}
		return compact(text)
	}}, err)
}

// feed is lines for a file of the bundle.
type feed struct {
	name  string
	lines io.ReadCloser // nil if the request for it failed
	clean func(line string) string
}

// stream writes the lines of a feed until their end. err is the error of the request for it. The end
// of ctx is not a failure.
func (p *capture) stream(ctx context.Context, f feed, err error) {
	if err == nil {
		err = errors.Join(p.dir.lines(f.name, f.lines, f.clean), f.lines.Close())
	}
	if ctx.Err() != nil && !errors.Is(err, errFull) {
		err = nil
	}
	p.done(ctx, f.name, err)
}

// profiles reads the profiles of an agent.
func (p *capture) profiles(ctx context.Context, a agent, n int) {
	if p.pprofLong == 0 {
		return
	}
	seconds := max(int(p.pprofLong.Seconds()), 1)
	for _, f := range []struct {
		file, profile string
		debug         int
	}{{"profile_%04d.prof", "profile", 0}, {"trace_%04d.prof", "trace", 0}, {"goroutine_%04d.prof", "goroutine",
		0}, {"goroutine-debug1_%04d.txt", "goroutine", 1},
		{"goroutine-debug2_%04d.txt", "goroutine", 2}, {"heap_%04d.prof", "heap", 0}, {"allocs_%04d.prof", "allocs",
			0}, {"threadcreate_%04d.prof", "threadcreate", 0}} {
		if ctx.Err() != nil || p.isDenied(a.dir()+"/pprof") {
			return
		}
		name := a.dir() + "/" + fmt.Sprintf(f.file, n)
		body, err := p.profile(ctx, f.profile, api.PprofOptions{NodeID: a.node, ServerID: a.server, Seconds: seconds, Debug: f.debug})
		if err == nil {
			err = errors.Join(p.dir.copy(name, body), body.Close())
		}
		if api.StatusCode(err) == http.StatusForbidden {
			name = a.dir() + "/pprof"
		}
		p.done(ctx, name, err)
	}
}

// profile reads one profile. An agent refuses a second CPU profile or trace while one runs, such as
// that of the server in the same process, so the read is repeated.
func (p *capture) profile(ctx context.Context, name string, o api.PprofOptions) (io.ReadCloser, error) {
	for try := 0; ; try++ {
		body, err := p.client.Agent().Profile(name, o, p.query(ctx))
		if api.StatusCode(err) != http.StatusConflict || try == maxTries {
			return body, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(p.pprofLong):
		}
	}
}

// done records the result of a capture. What the caller may not read is no failure.
func (p *capture) done(ctx context.Context, name string, err error) {
	switch code := statusOf(err); {
	case err == nil:
		if p.detail {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.env.Printf("Captured %s\n", name)
		}
	case code == http.StatusForbidden, code == http.StatusNotImplemented, code == http.StatusBadRequest && name == "cluster/schedulers.json":
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.denied[name] {
			p.env.Warnf("Not captured: %s: %s", name, p.dir.scrub.text(err.Error()))
		}
		p.denied[name] = true
	case ctx.Err() == nil:
		p.failure(name, err)
	}
}

func (p *capture) isDenied(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.denied[name]
}

// failure records and prints an error.
func (p *capture) failure(name string, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text := name + ": " + p.dir.scrub.text(err.Error())
	p.failed = append(p.failed, text)
	p.env.Warnf("Error capturing %s", text)
}

func (p *capture) failures() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.failed))
}

// summary returns the index without its files.
func (p *capture) summary(interrupted bool) *summary {
	s := &summary{Version: version.Human(), Started: p.began.UTC(), Ended: time.Now().UTC(), Interrupted: interrupted, Flags: p.flags,
		Errors: p.failures()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.denied {
		s.Denied = append(s.Denied, name)
	}
	slices.Sort(s.Denied)
	return s
}
