package alloc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	cmdterm "github.com/open-nomad/open-nomad/command/term"
)

const (
	// maxForwards is the maximum number of ports of one command.
	maxForwards = 16
	// maxConnections is the maximum number of concurrent connections of one command. The node
	// has the same limit for an allocation. Further connections wait.
	maxConnections = 32
)

func portForwardCommand() cmdterm.Command {
	return cmdterm.Command{
		Name: "port-forward", Args: "<allocation> <[local:]label|port>...", MinArgs: 2, MaxArgs: 1 + maxForwards,
		Short: "Forward local ports to ports of an allocation",
		Long: `Listens on ports of this machine, and forwards each connection to a port of the allocation. The
connection passes the agent, the servers and the client of its node. The port is a label of a network
block or a number. Without a local port, the number of the port is used; the local port 0 means any free
one.

    nomad port-forward 5f2c http
    nomad port-forward -job web 8080:http 9000:9000
    nomad port-forward -listen=127.0.0.2 5f2c 0:db

If the group has a network of its own (bridge, none or CNI), any port that a task listens on can be used.
Otherwise only ports that were allocated to the group can. Needs alloc-port-forward in the namespace. The
command runs until it is interrupted or the allocation ends.`,
		Setup: func(f *cmdterm.Flags) cmdterm.Run {
			x := &portForwards{}
			f.StringVar(&x.listen, "listen", "127.0.0.1",
				"The `address` to listen on. Others on the network can use the ports if it is not a loopback address.")
			f.BoolVar(&x.job, "job", false, "The allocation is a job ID. Use one of its allocations.")
			f.StringVar(&x.group, "group", "", "With -job, use an allocation of this task `group`.")
			return x.run
		},
	}
}

type portForwards struct {
	listen, group string
	job           bool
}

// forward is one forwarded port.
type forward struct {
	local  uint16
	remote string // a label or a number
}

// listener accepts the connections of a forwarded port.
type listener struct {
	net.Listener
	forward forward
}

func (x *portForwards) run(ctx context.Context, e *cmdterm.Env) error {
	ip := net.ParseIP(x.listen)
	if ip == nil {
		return fmt.Errorf("invalid address %q for -listen: use an IP address of this machine", x.listen)
	}
	at, err := x.find(ctx, e)
	if err != nil {
		return err
	}
	if at.alloc.ClientStatus != api.AllocClientStatusRunning {
		return fmt.Errorf("Allocation %q is %s: ports of running allocations can be forwarded", cmdterm.Short.ID(at.alloc.ID),
			at.alloc.ClientStatus)
	}
	var forwards []forward
	for _, text := range e.Args[1:] {
		f, err := parseForward(text, portsOf(at.alloc))
		if err != nil {
			return err
		}
		forwards = append(forwards, f)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var open []listener
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	for _, f := range forwards {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(x.listen, strconv.Itoa(int(f.local))))
		if err != nil {
			return fmt.Errorf("Error forwarding port %s: %w", f.remote, err)
		}
		open = append(open, listener{l, f})
		e.Printf("Forwarding %s -> port %s of allocation %s\n", l.Addr(), f.remote, cmdterm.Short.ID(at.alloc.ID))
	}
	return serve(ctx, e, at, open)
}

func (x *portForwards) find(ctx context.Context, e *cmdterm.Env) (found, error) {
	if x.job {
		return ofJob(ctx, e, e.Arg(0), x.group)
	}
	return find(ctx, e, e.Arg(0))
}

// serve accepts connections until ctx ends or the allocation does.
func serve(ctx context.Context, e *cmdterm.Env, at found, open []listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, maxConnections)
	out := &lines{env: e}
	for _, l := range open {
		defer context.AfterFunc(ctx, func() { l.Close() })()
		work.Go(func() { acceptAll(ctx, l, slots, func(conn net.Conn) { out.connect(ctx, conn, at, l.forward) }) })
	}
	work.Go(func() { cancel(watchEnd(ctx, at)) })
	<-ctx.Done()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// acceptAll handles each connection in a goroutine and waits for them.
func acceptAll(ctx context.Context, l net.Listener, slots chan struct{}, handle func(net.Conn)) {
	var work sync.WaitGroup
	defer work.Wait()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil { // the listener is closed, or this process has no descriptors left
			<-slots
			return
		}
		work.Go(func() {
			defer func() { <-slots }()
			handle(conn)
		})
	}
}

// watchEnd returns when the allocation is not running any more.
func watchEnd(ctx context.Context, at found) error {
	q := query(ctx, at.alloc)
	for {
		a, meta, err := at.client.Allocations().Info(at.alloc.ID, q)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("Error querying allocation: %w", err)
		case a.ClientStatus != api.AllocClientStatusRunning:
			return fmt.Errorf("Allocation %q is %s", cmdterm.Short.ID(a.ID), a.ClientStatus)
		}
		q.WaitIndex = meta.LastIndex
	}
}

// lines writes errors of connections, one at a time.
type lines struct {
	env *cmdterm.Env
	mu  sync.Mutex
}

// connect connects a local connection to the allocation until either side ends.
func (o *lines) connect(ctx context.Context, conn net.Conn, at found, f forward) {
	defer conn.Close()
	err := at.client.Allocations().PortForward(ctx, at.alloc, f.remote, conn, query(ctx, at.alloc))
	if err != nil && ctx.Err() == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.env.Warnf("Error forwarding port %s: %v", f.remote, err)
	}
}

// portsOf returns the ports of an allocation by label: those that a task listens on.
func portsOf(a *api.Allocation) map[string]int {
	out := map[string]int{}
	if a.AllocatedResources == nil {
		return out
	}
	for _, p := range a.AllocatedResources.Shared.Ports {
		out[p.Label] = p.Value
		if p.To > 0 {
			out[p.Label] = p.To
		}
	}
	for _, t := range a.AllocatedResources.Tasks {
		for _, n := range t.Networks {
			for _, p := range append(n.ReservedPorts[:len(n.ReservedPorts):len(n.ReservedPorts)], n.DynamicPorts...) {
				out[p.Label] = p.Value
			}
		}
	}
	return out
}

// labels lists the labels of ports for an error.
func labels(ports map[string]int) string {
	if len(ports) == 0 {
		return "the allocation has none"
	}
	return strings.Join(slices.Sorted(maps.Keys(ports)), ", ")
}

// parseForward parses [LOCAL:]LABEL|PORT.
func parseForward(text string, ports map[string]int) (forward, error) {
	local, remote, given := strings.Cut(text, ":")
	if !given {
		local, remote = "", text
	}
	number, known := ports[remote]
	if !known {
		n, err := strconv.ParseUint(remote, 10, 16)
		if err != nil || n == 0 {
			return forward{}, fmt.Errorf("unknown port %q: use a label (%s) or a number", remote, labels(ports))
		}
		number = int(n)
	}
	if !given {
		return forward{uint16(number), remote}, nil
	}
	n, err := strconv.ParseUint(local, 10, 16)
	if err != nil {
		return forward{}, fmt.Errorf("invalid local port %q in %q: use a number up to 65535", local, text)
	}
	return forward{uint16(n), remote}, nil
}
