package check

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Values of on_update that make a check matter less. The default is require_healthy.
const (
	onUpdateIgnore         = "ignore"
	onUpdateIgnoreWarnings = "ignore_warnings"
)

// shortest is the minimum of intervals and timeouts. The servers refuse less.
const shortest = time.Second

// Target is one check with everything that a run of it needs.
type Target struct {
	ID      message.CheckID
	Mode    message.CheckMode
	Name    string
	Service string
	Group   string // the name of the allocation
	Task    string // "" for the group
	Type    string
	Of      Key // the service that declares it

	// InConsul is set if Consul has the check, and determines its status. Only a script is run here.
	InConsul bool
	Owner    string // of the services of its workload

	Address  service.Address
	Inside   bool // in the network namespace of the allocation, if it has one
	Foreign  bool // the job sets the address
	Interval time.Duration
	Timeout  time.Duration
	HTTP     HTTP
	GRPC     GRPC
	Command  []string // of a script
	In       string   // the task in which the script runs

	ServerName string // in the certificate of https and grpc, "" for the host
	SkipVerify bool   // accept any certificate

	Initial        message.CheckStatus // before the first result, "" for pending
	Thresholds     Thresholds
	IgnoreWarnings bool                // a warning does not keep a deployment from being healthy
	Restart        *nomad.CheckRestart // nil without a limit
	// Fault is the reason for which the check cannot run. Its result is then always a failure.
	Fault error
}

// Key identifies a service of an allocation as its job declares it, before interpolation.
type Key struct {
	Task string // "" for the group
	Name string
	Port string
}

func keyOf(w *service.Workload, s *nomad.Service) Key { return Key{w.Task, s.Name, s.PortLabel} }

// HTTP is the request of an HTTP check.
type HTTP struct {
	Protocol, Method, Path, Body string
	Header                       map[string][]string
}

// Targets returns the checks of a workload, with references interpolated, in the order of the job. Those of the sidecar of
// a service follow those of the service.
func Targets(w *service.Workload) []*Target {
	var out []*Target
	for _, s := range w.Services {
		for _, c := range s.Checks {
			out = append(out, target(w, s, c))
		}
		if consulService(s) {
			out = append(out, sidecarTargets(w, s)...)
		}
	}
	return out
}

func target(w *service.Workload, s *nomad.Service, c *nomad.ServiceCheck) *Target {
	expand := w.Env.Expand
	onUpdate := cmp.Or(c.OnUpdate, s.OnUpdate)
	name := expand(s.Name)
	t := &Target{
		Mode: message.Healthiness, Name: expand(cmp.Or(c.Name, fmt.Sprintf("service: %q check", name))), Service: name,
		Group: w.Alloc.Name, Task: w.Task, Type: expand(c.Type), Of: keyOf(w, s), Command: command(c, expand),
		In:       nomad.CheckTask(s, c, w.Task),
		Interval: max(c.Interval, shortest), Timeout: max(c.Timeout, shortest),
		HTTP: HTTP{Protocol: cmp.Or(expand(c.Protocol), "http"), Method: cmp.Or(expand(c.Method), "GET"), Path: expand(c.Path),
			Body: c.Body, Header: expandHeader(c.Header, expand)},
		GRPC: GRPC{Service: expand(c.GRPCService), TLS: c.GRPCUseTLS}, ServerName: c.TLSServerName, SkipVerify: c.TLSSkipVerify,
		Initial:    initialStatus(expand(c.InitialStatus)),
		Thresholds: Thresholds{Passing: c.SuccessBeforePassing, Warning: c.FailuresBeforeWarning, Critical: c.FailuresBeforeCritical},
		Restart:    restartOf(c), IgnoreWarnings: onUpdate == onUpdateIgnoreWarnings,
	}
	if onUpdate == onUpdateIgnore {
		t.Mode = message.Readiness
	}
	if consulService(s) {
		t.inConsul(w, s, c)
		return t
	}
	t.ID = idOf(w, c, t)
	if t.Type != nomad.ServiceCheckScript {
		t.Fault = t.resolve(w, s, c)
	}
	return t
}

// resolve sets the address of the check.
func (t *Target) resolve(w *service.Workload, s *nomad.Service, c *nomad.ServiceCheck) error {
	ask := w.AskCheck(s, c)
	addr, err := w.Network.Resolve(ask)
	if err != nil {
		return fmt.Errorf("unable to get address for check %q: %w", t.Name, err)
	}
	if addr.Port == 0 {
		return fmt.Errorf("check %q has no port: set port in the check or its service", t.Name)
	}
	t.Address = addr
	t.Foreign = ask.Mode == service.ModeAuto
	// The address of the host and its mapped port lead into the namespace from outside.
	t.Inside = ask.Mode != service.ModeHost || addr.Host == ""
	return nil
}

// command returns the program of a script and its arguments.
func command(c *nomad.ServiceCheck, expand func(string) string) []string {
	out := []string{expand(c.Command)}
	for _, arg := range c.Args {
		out = append(out, expand(arg))
	}
	return out
}

func expandHeader(header map[string][]string, expand func(string) string) map[string][]string {
	out := make(map[string][]string, len(header))
	for key, values := range header {
		for _, v := range values {
			out[expand(key)] = append(out[expand(key)], expand(v))
		}
	}
	return out
}

func restartOf(c *nomad.ServiceCheck) *nomad.CheckRestart {
	if c.CheckRestart == nil || c.CheckRestart.Limit <= 0 {
		return nil
	}
	return c.CheckRestart
}

// idOf returns the hash of the definition, as in Nomad 2.0. A script adds its command, a gRPC check its service, and both
// it and https the name in the certificate: Nomad does not have these.
func idOf(w *service.Workload, c *nomad.ServiceCheck, t *Target) message.CheckID {
	h := sha256.New()
	put := func(parts ...string) {
		for _, p := range parts {
			h.Write([]byte(p)) // never fails
		}
	}
	expand := w.Env.Expand
	put(w.Alloc.ID, w.Alloc.TaskGroup, w.Task, t.Name, t.Type, expand(c.PortLabel), c.OnUpdate, c.AddressMode)
	var number [8]byte
	for _, d := range []time.Duration{c.Interval, c.Timeout} {
		binary.LittleEndian.PutUint64(number[:], uint64(d))
		h.Write(number[:])
	}
	put(expand(c.Protocol), expand(c.Path), expand(c.Method), strconv.FormatBool(c.TLSSkipVerify))
	switch t.Type {
	case nomad.ServiceCheckScript:
		put(t.Command...)
	case nomad.ServiceCheckGRPC:
		put(t.GRPC.Service, strconv.FormatBool(t.GRPC.TLS))
	}
	put(t.ServerName)
	return message.CheckID(hex.EncodeToString(h.Sum(nil)))
}

// result returns a result of the check.
func (t *Target) result(status message.CheckStatus, code int, output string) *message.CheckQueryResult {
	return &message.CheckQueryResult{
		ID: t.ID, Mode: t.Mode, Status: status, StatusCode: code, Output: output, Timestamp: time.Now().Unix(),
		Group: t.Group, Task: t.Task, Service: t.Service, Check: t.Name,
	}
}
