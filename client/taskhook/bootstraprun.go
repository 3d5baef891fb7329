package taskhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/internal/sidecar"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Limits of a run of the program.
const (
	bootstrapTime   = time.Minute
	maxBootstrap    = 1 << 20
	maxBootstrapLog = 64 << 10
)

// bootstrapSocket is the socket over which the program reaches Consul during its run, in the secrets directory. The
// program may be in a network namespace from which the address of Consul cannot be reached.
const bootstrapSocket = ".consul_bootstrap.sock"

// bootstrap is one run of the program consul, which prints the configuration of a proxy.
type bootstrap struct {
	mesh               *connect.Node
	id                 string // of the proxy or gateway in Consul
	gateway            string // its kind, "" for a sidecar
	token              string // of the service, "" for none
	grpc, admin, ready string // addresses for the proxy
}

// run returns the configuration, and what the program reported.
func (b *bootstrap) run(ctx context.Context, req *TaskPrestartRequest, log *slog.Logger) (config []byte, text string, err error) {
	program, err := consulProgram()
	if err != nil {
		return nil, "", err
	}
	defer program.Close()
	confined, err := req.Confine()
	if err != nil {
		return nil, "", err
	}
	l, err := listen(ctx, req.Dir.Secrets(), bootstrapSocket, req.Owner)
	if err != nil {
		return nil, "", fmt.Errorf("create its socket: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootstrapTime, fmt.Errorf("it did not end within %s and was killed", bootstrapTime))
	var socket sync.WaitGroup
	defer func() {
		cancel()
		socket.Wait()
		if rerr := req.Dir.Secrets().Remove(bootstrapSocket); err == nil {
			err = rerr
		}
	}()
	socket.Go(func() { b.serve(ctx, l, req, log) })
	out := &firstbytes.Buffer{Limit: maxBootstrap, OnCut: cancel}
	report := &firstbytes.Buffer{Limit: maxBootstrapLog}
	exit, err := runProgram(ctx, confined, b.sidecar(program, req.Dir.SecretsPath()), [2]io.Writer{out, report})
	text = report.String()
	if b.token != "" { // the log can be read by other tasks
		text = strings.ReplaceAll(text, b.token, "<token>")
	}
	switch {
	case out.Truncated():
		err = fmt.Errorf("it printed more than %d bytes and was killed", maxBootstrap)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
	case exit.ExitCode != 0 || exit.Signal != 0:
		err = fmt.Errorf("it ended with exit code %d, signal %d", exit.ExitCode, exit.Signal)
	case !json.Valid(out.Bytes()):
		err = errors.New("what it printed is not JSON")
	}
	return out.Bytes(), text, err
}

// serve serves the HTTP API of Consul to the program, as the program's token allows.
func (b *bootstrap) serve(ctx context.Context, l net.Listener, req *TaskPrestartRequest, log *slog.Logger) {
	p := &connect.Proxy{Dial: b.mesh.DialPlainHTTP, Limit: b.mesh.Limit, Key: req.Alloc.ID + "/" + req.Task.Name, Log: log}
	p.Serve(ctx, l)
}

// consulProgram opens the program in the PATH of the client.
func consulProgram() (*os.File, error) {
	name, err := exec.LookPath("consul")
	if err != nil {
		return nil, errors.New("the PATH of the client has no such program: install the Consul of the cluster there")
	}
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return nil, err
	}
	if name, err = filepath.Abs(name); err != nil {
		return nil, err
	}
	return os.Open(name)
}

// sidecar returns the program with its arguments and what it can access. Its token is in its environment, which only its
// own user can read, not in its arguments.
func (b *bootstrap) sidecar(program *os.File, dir string) *drivers.Sidecar {
	args := []string{"consul", "connect", "envoy", "-grpc-addr", b.grpc, "-http-addr", "unix://" + bootstrapSocket, "-admin-bind", b.admin,
		"-address", b.ready, "-proxy-id", b.id, "-bootstrap"}
	if b.gateway != "" {
		args = append(args, "-gateway", b.gateway)
	}
	paths := []drivers.SidecarPath{{Modes: "rx", Name: program.Name()}, {Modes: "r", Name: dir},
		{Modes: "rw", Name: os.DevNull, Optional: true}, {Modes: "r", Name: "/dev/urandom", Optional: true}}
	for _, name := range sidecar.SharedLibraries {
		paths = append(paths, drivers.SidecarPath{Modes: "rx", Name: name, Optional: true})
	}
	for _, name := range []string{"/etc/ld.so.cache", "/etc/passwd", "/etc/nsswitch.conf", "/etc/localtime"} {
		paths = append(paths, drivers.SidecarPath{Modes: "r", Name: name, Optional: true})
	}
	if ca := b.mesh.Agent.Settings().GRPCCAFile; ca != "" {
		args = append(args, "-grpc-ca-file", ca)
		paths = append(paths, drivers.SidecarPath{Modes: "r", Name: ca})
	}
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": dir}
	if b.token != "" {
		env["CONSUL_HTTP_TOKEN"] = b.token
	}
	return &drivers.Sidecar{Program: program, Args: args, Env: env, Dir: dir, Paths: paths}
}

// drainProgram is how long output is read after the end of the program. A descendant could keep it open.
const drainProgram = time.Second

// runProgram runs a program and copies its output and its errors.
func runProgram(ctx context.Context, c *Confinement, s *drivers.Sidecar, to [2]io.Writer) (*drivers.ExitResult, error) {
	var copies sync.WaitGroup
	var reads, writes []*os.File
	defer func() {
		for i := range reads {
			writes[i].Close() // the program has its own
			_ = reads[i].SetReadDeadline(time.Now().Add(drainProgram))
		}
		copies.Wait()
	}()
	for i, w := range to {
		r, end, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		reads, writes, s.Stdio[i+1] = append(reads, r), append(writes, end), end
		copies.Go(func() {
			defer r.Close()
			_, _ = io.Copy(w, r) // the buffer never fails, and the end of the pipe is no error
		})
	}
	return c.Run(ctx, s)
}
