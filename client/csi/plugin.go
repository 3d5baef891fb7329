package csi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	wait "github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// The time limits of calls, with their repetitions.
const (
	probeLimit    = 5 * time.Second  // Probe and Info
	describeLimit = 30 * time.Second // other calls about the plugin
	callLimit     = 2 * time.Minute  // calls about volumes and snapshots
)

// The repetitions of calls about volumes and snapshots.
const (
	maxRetries = 3
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
)

// The limits of a connection.
const (
	maxAnswer = 4 << 20
	maxHeader = 64 << 10
	window    = 256 << 10 // bytes that the plugin may send before they are read
	dialLimit = 5 * time.Second
	reconnect = 5 * time.Second
)

// Plugin is a connection to a plugin. Its methods may be called concurrently. A plugin that was restarted is connected again
// by the next call.
type Plugin struct {
	socket     Socket
	conn       *grpc.ClientConn
	identity   spec.IdentityClient
	controller spec.ControllerClient
	node       spec.NodeClient

	mu      sync.Mutex
	calls   int // running now
	closing bool
}

// Dial connects to a plugin. It fails if the socket does not exist or nobody listens on it. It does not call the plugin.
func Dial(ctx context.Context, s Socket) (*Plugin, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	first, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	d := &dialer{socket: s, first: first}
	conn, err := grpc.NewClient("passthrough:///csi", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), grpc.WithContextDialer(d.dial), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(), grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialLimit, Backoff: backoff.Config{
			BaseDelay: firstRetry, Multiplier: 2, MaxDelay: reconnect}}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer), grpc.ForceCodecV2(newCodec())))
	if err != nil {
		first.Close()
		return nil, fmt.Errorf("connect to plugin at %s: %w", s, err)
	}
	conn.Connect()
	return &Plugin{socket: s, conn: conn, identity: spec.NewIdentityClient(conn), controller: spec.NewControllerClient(conn),
		node: spec.NewNodeClient(conn)}, nil
}

// Close ends the connection after the running calls. It does not wait for them. Later calls fail.
func (p *Plugin) Close() error {
	p.mu.Lock()
	closed := p.closing
	p.closing = true
	idle := p.calls == 0
	p.mu.Unlock()
	if closed || !idle {
		return nil
	}
	return p.conn.Close()
}

// enter counts a call that begins. It fails after Close.
func (p *Plugin) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return &Error{Code: codes.Unavailable, text: "the instance of the plugin was stopped or replaced"}
	}
	p.calls++
	return nil
}

// leave counts a call that ends. The last one after Close ends the connection.
func (p *Plugin) leave() {
	p.mu.Lock()
	p.calls--
	last := p.closing && p.calls == 0
	p.mu.Unlock()
	if last {
		p.conn.Close() // nobody waits for its error
	}
}

// dialer connects to a socket. The first connection is already made.
type dialer struct {
	socket Socket

	mu    sync.Mutex
	first net.Conn
}

func (d *dialer) dial(ctx context.Context, _ string) (net.Conn, error) {
	d.mu.Lock()
	first := d.first
	d.first = nil
	d.mu.Unlock()
	if first != nil {
		return first, nil
	}
	return d.socket.connect(ctx)
}

// call describes a call for its limits, its errors and its metric.
type call struct {
	name    string // the method of the CSI specification
	service service
	limit   time.Duration
	retries int
	texts   texts
	subject subject
	secrets csi.Secrets
	flags   []string
}

// change returns the description of a call about volumes or snapshots.
func change(s service, name string) call {
	return call{name: name, service: s, limit: callLimit, retries: maxRetries}
}

// hide sets what the errors of the call must not show.
func (c *call) hide(secrets csi.Secrets, options *nomad.CSIMountOptions) {
	c.secrets = secrets
	if options != nil {
		c.flags = options.MountFlags
	}
}

// shown returns a text of the plugin for people: on one line, shortened, without secrets and mount flags of the request.
func (c *call) shown(text string) string {
	return untrusted.Line(csi.Hide(text, c.secrets, c.flags), maxText)
}

// do runs a call within its limits and converts its error.
func (p *Plugin) do(ctx context.Context, c call, run func(ctx context.Context) error) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	pause := wait.Backoff{Min: firstRetry, Max: lastRetry}
	var err error
	for attempt := 0; ; attempt++ {
		err = run(limited)
		if err == nil || attempt == c.retries || !repeatable(err) || pause.Wait(limited) != nil {
			break
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &Error{Code: status.FromContextError(ctx.Err()).Code(), text: fmt.Sprintf("call %s of the plugin: %v", c.name, ctx.Err()),
			cause: ctx.Err()}
	case limited.Err() != nil:
		return &Error{Code: codes.DeadlineExceeded, text: fmt.Sprintf("the plugin did not answer %s within %s", c.name, c.limit),
			cause: limited.Err()}
	}
	var invalid *invalidAnswer
	if errors.As(err, &invalid) {
		return &Error{Code: codes.DataLoss, text: c.shown(fmt.Sprintf("invalid answer of the plugin to %s: %v", c.name, err))}
	}
	return c.failure(err)
}

// repeatable reports whether a call may succeed if it is repeated at once.
func repeatable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable:
		return true
	case codes.ResourceExhausted:
		return !tooLarge(err)
	}
	return false
}

// tooLarge reports whether the client has refused an answer for its size. gRPC has no other sign of it than the text.
func tooLarge(err error) bool {
	st := status.Convert(err)
	return st.Code() == codes.ResourceExhausted && strings.HasPrefix(st.Message(), "grpc: received message larger than max")
}
