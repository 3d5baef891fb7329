// Package monitor streams the log of an agent to callers of Agent.Monitor and Agent.MonitorExport.
//
//	slog record ─▶ Hub ─▶ the agent's own log
//	                 └──▶ each reader: 512 lines, more are dropped and counted ─▶ frames
//	log_file, journald ─▶ frames
//
// A Hub never waits for a reader. A reader has a level and a format of its own, so the lines of a
// reader can be more detailed than the agent's log. Payloads are either raw bytes or JSON frames with
// up to 1,024 bytes of data; {} is a heartbeat.
//
// The package does not check rights and does not select an agent. Logs contain no secrets, since
// nothing in this project logs one. A journal is read by the program journalctl, which is started
// without a shell and with a checked unit name.
package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	maxFrame  = 1024            // data of one frame in bytes
	beatEvery = time.Second     // between heartbeats of a stream of JSON frames
	dropEvery = 3 * time.Second // between reports of dropped lines
)

// Config configures a Source.
type Config struct {
	// OpenLog opens the agent's log file; nil without log_file.
	OpenLog func() (*os.File, error)
	// Journalctl is the program that reads the journal. Default: journalctl.
	Journalctl string
}

// Source is the log of one agent.
type Source struct {
	Hub
	cfg     Config
	exports chan struct{}
}

// New returns a Source without readers.
func New(cfg Config) *Source {
	cfg.Journalctl = cmp.Or(cfg.Journalctl, "journalctl")
	return &Source{cfg: cfg, exports: make(chan struct{}, maxExports)}
}

// Sink receives the payloads of a stream, in order. An error ends the stream.
type Sink func(payload []byte) error

// Monitor sends the lines that the agent logs from now on, until ctx ends or the sink fails.
func (s *Source) Monitor(ctx context.Context, req *message.MonitorRequest, to Sink) error {
	level, err := Level(cmp.Or(req.LogLevel, "INFO"))
	if err != nil {
		return apierror.Errorf(http.StatusBadRequest, "Unknown log level: log_level %v", err)
	}
	r, remove, err := s.add(level, Format{JSON: req.LogJSON, Location: req.LogIncludeLocation})
	if err != nil {
		return err
	}
	defer remove()
	out := output{req.PlainText, to}
	if err := out.beat(); err != nil {
		return err
	}
	beats, drops := time.NewTicker(beatEvery), time.NewTicker(dropEvery)
	defer beats.Stop()
	defer drops.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-r.lines:
			err = out.send(line)
		case <-beats.C:
			err = out.beat()
		case <-drops.C:
			if n := r.dropped.Swap(0); n > 0 {
				err = out.send(fmt.Appendf(nil, "[WARN] Monitor dropped %d logs during monitor request\n", n))
			}
		}
		if err != nil {
			return err
		}
	}
}

// Log returns a logger for the agent: its records go to h and to the readers.
func (s *Source) Log(h slog.Handler) *slog.Logger { return slog.New(s.Handler(h)) }

// output encodes data as payloads.
type output struct {
	plain bool
	to    Sink
}

// beat sends a heartbeat, which plain text cannot contain.
func (o output) beat() error {
	if o.plain {
		return nil
	}
	return o.to([]byte("{}"))
}

// send sends data in frames.
func (o output) send(data []byte) error {
	for len(data) > 0 {
		part := data[:min(len(data), maxFrame)]
		data = data[len(part):]
		payload := part
		if !o.plain {
			var err error
			if payload, err = json.Marshal(struct{ Data []byte }{part}); err != nil {
				return fmt.Errorf("encode a frame of the log: %w", err)
			}
		}
		if err := o.to(payload); err != nil {
			return err
		}
	}
	return nil
}
