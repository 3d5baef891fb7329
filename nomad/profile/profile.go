// Package profile collects runtime profiles of an agent and facts about its host, for Agent.Profile
// and Agent.Host.
//
//	/v1/agent/pprof/* ─▶ Agent.Profile ─▶ Source.Profile ─▶ runtime/pprof, runtime/trace
//	/v1/agent/host    ─▶ Agent.Host    ─▶ Source.Host    ─▶ /proc, /etc, interfaces
//
// A profile contains names of functions and, as a trace, the times at which they ran. It contains no
// values from memory. The environment is never read. Values of secret flags are removed from the
// command line (args.go).
//
// The callers check the rights. If access control is disabled, Admit requires enable_debug. At most
// one CPU profile or trace runs at a time, for up to MaxSeconds. A profile is up to maxPayload bytes
// long. The package has no goroutines of its own.
package profile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// MaxSeconds is the maximum duration of a CPU profile or a trace.
const MaxSeconds = 300

// maxPayload is less than the maximum reply of a node to a server.
const maxPayload = 12 << 20

// Source collects the profiles of this process.
type Source struct {
	debug bool
	busy  chan struct{} // holds a value while a CPU profile or a trace runs
}

// New returns a Source. debug is enable_debug of the agent.
func New(debug bool) *Source { return &Source{debug: debug, busy: make(chan struct{}, 1)} }

// Admit refuses callers while access control is disabled, unless enable_debug is set. A task or node
// that presents its identity is refused in any case: it must not read the memory profile of its agent.
func (s *Source) Admit(identity bool) error {
	switch {
	case identity:
		return apierror.ErrPermissionDenied
	case s == nil || !s.debug:
		return apierror.Denied("access control is disabled, so this needs enable_debug = true in the agent's configuration")
	}
	return nil
}

// Profile returns a profile. AgentID is left to the caller.
func (s *Source) Profile(ctx context.Context, req *message.AgentPprofRequest) (*message.AgentPprofResponse, error) {
	if s == nil {
		return nil, apierror.Errorf(http.StatusNotImplemented, "this agent has no profiles")
	}
	seconds := cmp.Or(req.Seconds, 1)
	if seconds < 0 || seconds > MaxSeconds {
		return nil, apierror.Errorf(http.StatusBadRequest, "invalid seconds %d: use 1 to %d", req.Seconds, MaxSeconds)
	}
	long := time.Duration(seconds) * time.Second
	switch req.ReqType {
	case message.ProfileCmdline:
		return text([]byte(CommandLine())), nil
	case message.ProfileCPU:
		return s.timed(ctx, "profile", long, func(b *bounded) (func(), error) { return pprof.StopCPUProfile, pprof.StartCPUProfile(b) })
	case message.ProfileTrace:
		return s.timed(ctx, "trace", long, func(b *bounded) (func(), error) { return trace.Stop, trace.Start(b) })
	case message.ProfileLookup:
		return lookup(req)
	}
	return nil, apierror.Errorf(http.StatusNotFound, "unknown type of profile %q", req.ReqType)
}

// timed runs a profile for some time, or until ctx ends.
func (s *Source) timed(ctx context.Context, name string, long time.Duration,
	start func(*bounded) (func(), error)) (*message.AgentPprofResponse, error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		return nil, apierror.Errorf(http.StatusConflict, "a CPU profile or a trace of this agent is already running: try again later")
	}
	var out bounded
	stop, err := start(&out)
	if err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	end := time.NewTimer(long)
	defer end.Stop()
	select {
	case <-end.C:
	case <-ctx.Done():
	}
	stop()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out.binary(name)
}

// lookup returns a profile with a name, such as heap.
func lookup(req *message.AgentPprofRequest) (*message.AgentPprofResponse, error) {
	p := pprof.Lookup(req.Profile)
	if p == nil {
		return nil, apierror.Errorf(http.StatusNotFound, "Unknown profile %q: use one of %s", req.Profile, names())
	}
	if req.Profile == "heap" && req.GC > 0 {
		runtime.GC()
	}
	var out bounded
	if err := p.WriteTo(&out, req.Debug); err != nil && !errors.Is(err, errLarge) {
		return nil, fmt.Errorf("write the profile %s: %w", req.Profile, err)
	}
	if req.Debug == 0 {
		return out.binary(req.Profile)
	}
	return text(out.buf.Bytes()), nil // a text that is too long is cut
}

func names() string {
	var all []string
	for _, p := range pprof.Profiles() {
		all = append(all, p.Name())
	}
	return "cmdline, profile, trace, " + strings.Join(all, ", ")
}

// bounded holds the start of a profile. Its only way in is Write: an embedded buffer would also be written without the limit.
type bounded struct {
	buf  bytes.Buffer
	full bool
}

var errLarge = errors.New("the profile is too large")

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.full = b.full || b.buf.Len()+len(p) > maxPayload; b.full {
		return 0, errLarge
	}
	return b.buf.Write(p)
}

// binary returns the profile as a file.
func (b *bounded) binary(name string) (*message.AgentPprofResponse, error) {
	if b.full {
		return nil, apierror.Errorf(http.StatusInternalServerError, "the %s is larger than %d MiB: use fewer seconds", name, maxPayload>>20)
	}
	return &message.AgentPprofResponse{Payload: b.buf.Bytes(), HTTPHeaders: map[string]string{
		"Content-Type": "application/octet-stream", "Content-Disposition": fmt.Sprintf("attachment; filename=%q", name),
		"X-Content-Type-Options": "nosniff"}}, nil
}

func text(b []byte) *message.AgentPprofResponse {
	return &message.AgentPprofResponse{Payload: b, HTTPHeaders: map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}}
}
