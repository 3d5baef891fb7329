package check

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/internal/dialguard"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// maxOutput is the maximum size of a result's output in bytes.
const maxOutput = 3 << 10

// The counters of script checks, named as in Nomad.
var (
	scriptRuns     = []string{"client", "allocrunner", "taskrunner", "tasklet_runs"}
	scriptTimeouts = []string{"client", "allocrunner", "taskrunner", "tasklet_timeouts"}
)

// Exec runs a command in a task, without input, and returns the beginning of its output.
type Exec func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error)

// probe runs checks of one allocation.
type probe struct {
	netNS   string // path of the allocation's network namespace, "" for the host's
	execIn  func(task string) Exec
	version string
	roots   *x509.CertPool // nil for those of the system
}

// run runs a check once. It returns nil for a script whose task does not run.
func (p *probe) run(ctx context.Context, t *Target) *message.CheckQueryResult {
	if t.Fault != nil {
		return t.failure(t.Fault)
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	switch t.Type {
	case nomad.ServiceCheckHTTP:
		return p.http(ctx, t)
	case nomad.ServiceCheckTCP:
		return p.tcp(ctx, t)
	case nomad.ServiceCheckGRPC:
		return p.grpc(ctx, t)
	case nomad.ServiceCheckScript:
		return p.script(ctx, t)
	}
	return t.failure(fmt.Errorf("unknown type %q", t.Type))
}

func (t *Target) failure(err error) *message.CheckQueryResult {
	text := clip([]byte(err.Error()))
	if !t.InConsul {
		text = "nomad: " + text
	}
	return t.result(message.CheckFailure, 0, text)
}

func (p *probe) tcp(ctx context.Context, t *Target) *message.CheckQueryResult {
	conn, err := p.dial(ctx, t)
	if err != nil {
		return t.failure(err)
	}
	conn.Close()
	return t.result(message.CheckSuccess, 0, "nomad: tcp ok")
}

func (p *probe) script(ctx context.Context, t *Target) *message.CheckQueryResult {
	exec := p.execIn(t.In)
	if exec == nil {
		return nil
	}
	metrics.IncrCounter(scriptRuns, 1)
	out, exit, err := exec(ctx, t.Command)
	switch {
	case ctx.Err() != nil:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			metrics.IncrCounter(scriptTimeouts, 1)
		}
		return t.timedOut(ctx.Err())
	case err != nil:
		return t.failure(err)
	case exit.Successful():
		return t.result(message.CheckSuccess, 0, clip(out))
	}
	text := clip(out)
	if text == "" {
		text = fmt.Sprintf("nomad: the script ended with exit code %d and signal %d", exit.ExitCode, exit.Signal)
	}
	if warns(exit) {
		return t.result(message.CheckWarning, 0, text)
	}
	return t.result(message.CheckFailure, 0, text)
}

// warns reports whether a script ended by itself with the exit code of a warning, as with Consul.
func warns(exit *drivers.ExitResult) bool {
	return exit.ExitCode == 1 && exit.Signal == 0 && exit.Err == nil && !exit.OOMKilled
}

// dial connects to the address of the check.
func (p *probe) dial(ctx context.Context, t *Target) (conn net.Conn, err error) {
	d := net.Dialer{}
	if t.Foreign {
		d.Control = noMetadata
	}
	host := t.Address.Host
	port := strconv.Itoa(t.Address.Port)
	if p.netNS == "" || !t.Inside {
		return d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	}
	if host == "" {
		host = "127.0.0.1"
	}
	// Names are resolved in the host's network. A literal address is dialed on the calling thread.
	ip, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	err = netns.Inside(p.netNS, func() (err error) {
		conn, err = d.DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
		return err
	})
	return conn, err
}

func lookup(ctx context.Context, host string) (string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return host, nil
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", err
	}
	return ips[0], nil
}

var errRefused = errors.New("checks do not connect to addresses of this kind that a job sets: answers may be secrets of the node")

// noMetadata refuses a connection after its name is resolved. The unspecified address is this host.
func noMetadata(network, address string, conn syscall.RawConn) error {
	var refused *dialguard.Refused
	switch err := dialguard.Control(network, address, conn); {
	case !errors.As(err, &refused):
		return err
	case refused.Addr.IsUnspecified():
		return nil
	default:
		return fmt.Errorf("%s is a %s: %w", refused.Addr, refused.What, errRefused)
	}
}

// clip returns the beginning of an output, as valid UTF-8.
func clip(out []byte) string {
	return strings.ToValidUTF8(string(out[:min(len(out), maxOutput)]), "\uFFFD")
}
