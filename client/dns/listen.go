package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	miekg "github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/connlimit"
)

// Limits of listeners.
const (
	retryListen  = time.Minute
	tcpIdle      = 10 * time.Second
	readTimeout  = 2 * time.Second
	writeTimeout = 2 * time.Second
	peerConns    = 32 // TCP connections of one peer
	allConns     = 512
	maxQuestion  = 1232 // bytes by UDP
	stopTimeout  = 2 * time.Second
	connsPerHost = 0 // the host has one address
)

// sockets are those of one address.
type sockets struct {
	udp net.PacketConn
	tcp net.Listener
}

func (s *sockets) close() {
	if s.udp != nil {
		s.udp.Close()
	}
	if s.tcp != nil {
		s.tcp.Close()
	}
}

// listen serves on all addresses until ctx ends.
func (s *Server) listen(ctx context.Context) {
	var all, first sync.WaitGroup
	addrs := slices.Clone(s.cfg.Gateways)
	if s.cfg.Address.IsValid() {
		addrs = append(addrs, s.cfg.Address)
	}
	s.take(ctx)
	for _, addr := range addrs {
		first.Add(1)
		all.Go(func() { s.keepListening(ctx, addr, sync.OnceFunc(first.Done)) })
	}
	first.Wait()
	close(s.tried)
	s.keep(ctx)
	all.Wait()
}

// keepListening serves on one address until ctx ends. It calls tried after the first attempt. A failure is logged once.
func (s *Server) keepListening(ctx context.Context, addr netip.AddrPort, tried func()) {
	for logged := false; ctx.Err() == nil; {
		err := s.serve(ctx, addr, tried, &logged)
		tried()
		if ctx.Err() != nil {
			return
		}
		if !logged {
			log := s.cfg.Log.Warn
			if s.cfg.Quiet {
				log = s.cfg.Log.Info
			}
			log("services cannot be resolved by DNS at an address; it is tried again every minute", "address", addr, "err", err)
		}
		logged = true
		if backoff.Sleep(ctx, retryListen) != nil {
			return
		}
	}
}

// serve binds the sockets of an address and serves until ctx ends or a socket fails.
func (s *Server) serve(ctx context.Context, addr netip.AddrPort, tried func(), logged *bool) error {
	socks, err := s.bind(ctx, addr)
	if err != nil {
		return err
	}
	defer socks.close()
	s.setBound(ctx, addr, socks)
	defer s.setBound(ctx, addr, nil)
	tried()
	if *logged {
		s.cfg.Log.Info("services can be resolved by DNS", "address", addr)
	}
	*logged = false
	bridge := addr != s.cfg.Address
	if bridge {
		select {
		case <-s.cfg.Ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.answerOn(ctx, socks, handler{Server: s, local: addr, bridge: bridge})
}

// setBound records the sockets of an address, nil for none.
func (s *Server) setBound(ctx context.Context, addr netip.AddrPort, socks *sockets) {
	s.mu.Lock()
	s.bound[addr] = socks
	s.mu.Unlock()
	s.keep(ctx)
	if s.cfg.Changed != nil {
		s.cfg.Changed()
	}
}

// answerOn answers on both sockets until ctx ends or one fails.
func (s *Server) answerOn(ctx context.Context, socks *sockets, h handler) error {
	group, ctx := errgroup.WithContext(ctx)
	h.ctx = ctx
	byTCP := h
	byTCP.tcp = true
	each := peerConns
	if !h.bridge {
		each = connsPerHost
	}
	limited := &connlimit.Listener{Listener: socks.tcp, Limit: connlimit.New(each, allConns), Key: peerKey,
		Refuse: func(c net.Conn) { c.Close() }}
	for _, server := range []*miekg.Server{
		{PacketConn: socks.udp, Handler: &h, UDPSize: maxQuestion},
		{Listener: timed{limited}, Handler: &byTCP, ReadTimeout: readTimeout,
			IdleTimeout: func() time.Duration { return tcpIdle }},
	} {
		started := make(chan struct{})
		begun := sync.OnceFunc(func() { close(started) })
		server.NotifyStartedFunc = begun
		group.Go(func() error {
			defer begun()
			return fmt.Errorf("serve DNS: %w", errors.Join(server.ActivateAndServe(), errEnded))
		})
		group.Go(func() error {
			<-ctx.Done()
			<-started
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			return server.ShutdownContext(stop)
		})
	}
	return group.Wait()
}

// timed is a listener whose connections limit the time of each write. The library has no such limit: a peer that reads
// nothing would keep its connection and its question in work for ever.
type timed struct{ net.Listener }

// Accept implements net.Listener.
func (l timed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return timedConn{c}, nil
}

type timedConn struct{ net.Conn }

// Write implements net.Conn. The peer has writeTimeout to take the bytes.
func (c timedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if err != nil {
		c.Close() // a part of an answer was written: the peer cannot find the next one
	}
	return n, err
}

// errEnded means that a listener ended.
var errEnded = errors.New("the listener ended")

func peerKey(c net.Conn) string {
	addr, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return addr.Addr().String()
}

// bind binds both sockets of an address. That of a bridge need not exist yet.
func (s *Server) bind(ctx context.Context, addr netip.AddrPort) (*sockets, error) {
	bridge := addr != s.cfg.Address
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if !bridge {
			return nil
		}
		level, option := unix.SOL_IP, unix.IP_FREEBIND
		if addr.Addr().Is6() {
			level, option = unix.SOL_IPV6, unix.IPV6_FREEBIND
		}
		return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }), err)
	}}
	s.mu.Lock()
	socks, err := &sockets{udp: s.kept[addr]}, error(nil)
	delete(s.kept, addr)
	s.mu.Unlock()
	if socks.udp == nil {
		if socks.udp, err = lc.ListenPacket(ctx, "udp", addr.String()); err != nil {
			return nil, err
		}
	}
	if socks.tcp, err = lc.Listen(ctx, "tcp", addr.String()); err != nil {
		socks.close()
		return nil, err
	}
	return socks, nil
}
