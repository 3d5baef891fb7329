package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// instance is a program with the configuration of a plugin block, and its process. Driver and
// DevicePlugin are instances.
type instance struct {
	program *program
	name    string
	label   string // of its plugin block
	args    []string
	log     *slog.Logger
	cfg     *Config
	// begin completes the start of a process that has its configuration.
	begin func(ctx context.Context, p *process) error

	mu      sync.Mutex
	config  []byte
	current *process      // serves calls; nil while none does
	spare   *process      // configured, before keep serves with it
	why     error         // why none does
	changed chan struct{} // closed when current changes
	closed  bool
}

// newInstance returns an instance without a process. The caller sets begin.
func newInstance(p *program, name, label string, args []string) instance {
	return instance{program: p, name: name, label: label, args: args, log: p.log.With(p.logKey(), name), cfg: &p.host.cfg,
		why: errors.New("it has not been started yet"), changed: make(chan struct{})}
}

// ConfigSpec returns the schema of the plugin block.
func (i *instance) ConfigSpec() hcldec.Spec {
	spec, err := hclspec.Decode(i.program.schema)
	if err != nil {
		return hcldec.ObjectSpec{} // not reached: Open has decoded it
	}
	return spec
}

// SetConfig starts the program with its configuration. The refusal of a configuration is an error. Any
// other failure is logged and retried.
func (i *instance) SetConfig(cfg cty.Value) error {
	raw, err := wire.EncodeConfig(cfg)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.config = raw
	i.mu.Unlock()
	p, err := i.start(context.Background())
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.spare, i.why = p, err
	if err != nil {
		i.log.Warn("start the program of a plugin", "err", err)
	}
	return nil
}

// refusal is the program's refusal of its configuration.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// start starts a process and configures it.
func (i *instance) start(ctx context.Context) (*process, error) {
	p, err := i.program.launch(ctx, i.args)
	if err != nil {
		return nil, err
	}
	if err := i.configure(ctx, p); err != nil {
		err = p.explain(err)
		p.stop()
		return nil, err
	}
	return p, nil
}

// configure sends a process its configuration.
func (i *instance) configure(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, i.cfg.Patience)
	defer cancel()
	i.mu.Lock()
	req := &proto.SetConfigRequest{MsgpackConfig: i.config, PluginApiVersion: wire.APIVersion,
		NomadConfig: &proto.NomadConfig{Driver: &proto.NomadDriverConfig{
			ClientMinPort: uint32(i.cfg.MinPort), ClientMaxPort: uint32(i.cfg.MaxPort), Topology: i.cfg.Topology}}}
	i.mu.Unlock()
	_, err := p.base.SetConfig(ctx, req)
	switch status.Code(err) {
	case codes.OK:
		return i.begin(ctx, p)
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Unimplemented, codes.Internal:
		return fmt.Errorf("configure the %s: %w", i.program.noun(), wire.DecodeError(err))
	default:
		return &refusal{fmt.Errorf("the %s refuses its configuration: %w", i.program.noun(), wire.DecodeError(err))}
	}
}

// live returns the process that serves calls. It waits for a restart until ctx ends.
func (i *instance) live(ctx context.Context) (*process, error) {
	for {
		i.mu.Lock()
		p, why, changed, closed := i.current, i.why, i.changed, i.closed
		i.mu.Unlock()
		if p != nil && !p.over() {
			return p, nil
		}
		if closed {
			return nil, fmt.Errorf("%s %s: %w: the agent is stopping", i.program.noun(), i.name, drivers.ErrNotRunning)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %s: %w: %w", i.program.noun(), i.name, drivers.ErrNotRunning, errors.Join(ctx.Err(), why))
		case <-time.After(retryLive): // the process has ended, and its successor is not known yet
		}
	}
}

// retryLive is the interval in which live looks at a process that has just ended.
const retryLive = 250 * time.Millisecond

// brief calls f with the process and the time limit of a short call.
func (i *instance) brief(ctx context.Context, f func(ctx context.Context, p *process) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*i.cfg.Patience)
	defer cancel()
	p, err := i.live(ctx)
	if err != nil {
		return err
	}
	return wire.DecodeError(f(ctx, p))
}

// serve makes a process the one that serves calls, nil for none. It returns an error when the host is
// closed, and then the caller stops the process.
func (i *instance) serve(p *process, why error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return errClosed
	}
	i.current, i.why = p, why
	close(i.changed)
	i.changed = make(chan struct{})
	return nil
}

var errClosed = errors.New("the agent is stopping")

// close ends the processes.
func (i *instance) close() {
	i.mu.Lock()
	i.closed = true
	list := []*process{i.current, i.spare}
	i.current, i.spare = nil, nil
	close(i.changed)
	i.changed = make(chan struct{})
	i.mu.Unlock()
	for _, p := range list {
		if p != nil {
			p.shutdown()
		}
	}
}
