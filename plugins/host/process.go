package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// process is a running process of a program.
type process struct {
	program *program
	client  *plugin.Client
	runner  *runner
	base    proto.BasePluginClient
	driver  proto.DriverClient
	device  proto.DevicePluginClient
}

// Limits of a connection.
const (
	maxHeaders   = 64 << 10 // bytes of the headers of an answer, with its error
	window       = 256 << 10
	shutPatience = 2 * time.Second // for the driver to shut down, and then for the process to end
)

// connection is the client half of the services. go-plugin passes it the connection.
type connection struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCServer implements plugin.GRPCPlugin.
func (connection) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return errNoServer }

// GRPCClient implements plugin.GRPCPlugin.
func (connection) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// service is the name under which go-plugin has the connection.
const service = "driver"

// launch starts a process of the program and connects to it.
func (p *program) launch(ctx context.Context, args []string) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := p.open()
	if err != nil {
		return nil, err
	}
	r := &runner{file: file, name: p.file, args: args, log: p.log}
	proc := &process{program: p, runner: r, client: plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey,
			MagicCookieValue: wire.CookieValue},
		Plugins:          plugin.PluginSet{service: connection{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     p.host.cfg.Patience,
		Logger:           hclog.NewNullLogger(), // the runner logs the lines of the program
		SyncStdout:       newOutput(p.log, &r.tail),
		SyncStderr:       newOutput(p.log, &r.tail),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: p.host.cfg.Runtime},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (gorunner.Runner, error) {
			r.cmd = cmd
			return r, nil
		},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: p.host.cfg.Patience}),
			grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(4 * window),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, r.socket) }),
		},
	})}
	if err := proc.connect(); err != nil {
		proc.stop()
		file.Close()
		return nil, fmt.Errorf("start the program of the %s: %w", p.noun(), err)
	}
	return proc, nil
}

func (p *process) connect() error {
	protocol, err := p.client.Client() // it starts the process
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(service)
	if err != nil {
		return err
	}
	conn, ok := raw.(*grpc.ClientConn)
	if !ok {
		return fmt.Errorf("go-plugin returned a %T, want a connection", raw)
	}
	p.base, p.driver, p.device = proto.NewBasePluginClient(conn), proto.NewDriverClient(conn), proto.NewDevicePluginClient(conn)
	return nil
}

// dial connects to the socket of a program. Somebody else could listen under a name in a shared TMPDIR,
// and would get the configurations of tasks.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	uid, err := peerUID(conn.(*net.UnixConn))
	if err == nil && uid != os.Geteuid() {
		err = fmt.Errorf("the socket of the plugin belongs to uid %d", uid)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var opErr error
	if err := raw.Control(func(fd uintptr) { cred, opErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if opErr != nil {
		return 0, fmt.Errorf("read the credentials of the plugin: %w", opErr)
	}
	return int(cred.Uid), nil
}

// over reports whether the process has ended.
func (p *process) over() bool {
	select {
	case <-p.runner.ended:
		return true
	default:
		return false
	}
}

// explain replaces an error of the connection by the end of the process, if that was the reason.
func (p *process) explain(err error) error {
	select {
	case <-p.runner.ended:
	case <-time.After(100 * time.Millisecond): // the connection breaks a moment before
	}
	if !p.over() {
		return err
	}
	return fmt.Errorf("the program of the %s %s%s", p.program.noun(), strings.TrimPrefix(p.runner.exit, " "), p.runner.tail.quote())
}

// stop ends the process: by a request, and after a while by SIGKILL.
func (p *process) stop() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.client.Kill() // a program that does not answer would block it
	}()
	select {
	case <-done:
	case <-time.After(shutPatience):
		if p.runner.cmd != nil {
			p.runner.Kill(context.Background()) //nolint:errcheck // it may have ended
		}
		<-done
	}
}

// shutdown is stop after the driver was asked to shut down.
func (p *process) shutdown() {
	if !p.over() && !p.program.device {
		ctx, cancel := context.WithTimeout(context.Background(), shutPatience)
		defer cancel()
		// Many drivers do not have the method, and the process ends in any case.
		_, _ = p.driver.Shutdown(ctx, &proto.ShutdownRequest{})
	}
	p.stop()
}

// errChroot refuses drivers whose tasks need a copy of the node's programs.
var errChroot = errors.New("the driver needs a chroot directory for each task, which this version does not build")
