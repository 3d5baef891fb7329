package connect

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/connlimit"
)

// acceptAgain is the delay after a connection could not be accepted.
const acceptAgain = time.Second

// Proxy copies the connections of a socket to Consul, byte by byte. It adds nothing, such as a token.
type Proxy struct {
	Dial  Dial
	Limit *connlimit.Limit
	Key   string // of the socket in the limit
	Log   *slog.Logger
}

// Serve copies connections until ctx ends, and waits for them. It closes the listener.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) {
	var conns sync.WaitGroup
	defer conns.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.Close()                                      // closed already, or no longer needed
	defer context.AfterFunc(ctx, func() { l.Close() })() // Accept returns its error
	limited := &connlimit.Listener{Listener: l, Limit: p.Limit, Key: func(net.Conn) string { return p.Key }, Refuse: p.refuse}
	for {
		c, err := limited.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			p.Log.Warn("accept a connection to Consul", "err", err)
			if backoff.Sleep(ctx, acceptAgain) != nil {
				return
			}
			continue
		}
		conns.Go(func() { p.copy(ctx, c) })
	}
}

// refuse closes a connection over the limit.
func (p *Proxy) refuse(c net.Conn) {
	p.Log.Debug("socket of Consul: too many connections", "limit", SocketConns)
	c.Close() // nothing was sent
}

// copy copies one connection in both directions until both have ended, or ctx ends.
func (p *Proxy) copy(ctx context.Context, task net.Conn) {
	defer task.Close()
	consul, err := p.Dial(ctx)
	if err != nil {
		p.Log.Debug("connect a task with Consul", "err", err)
		return
	}
	defer consul.Close()
	defer context.AfterFunc(ctx, func() { task.Close(); consul.Close() })()
	var back sync.WaitGroup
	back.Go(func() { oneWay(task, consul) })
	oneWay(consul, task)
	back.Wait()
}

// oneWay copies one direction. The end of the input ends the output, and an error ends both connections.
func oneWay(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	} else if err == nil {
		err = errors.ErrUnsupported
	}
	if err != nil {
		to.Close()
		from.Close()
	}
}
