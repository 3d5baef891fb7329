package monitor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	maxExports   = 8 // at the same time
	defaultSince = "72h"
	maxUnitName  = 255
	maxComplaint = 512 // bytes of an error of journalctl
)

// unitName is a unit without its suffix. It cannot be a pattern.
var unitName = pattern.Lazy(`^[\w\\._-]*(@[\w\\._-]+)?$`)

// unitSuffixes are the types of units in systemd.
var unitSuffixes = []string{"service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"}

// CheckExport returns an error for a request that no agent can answer.
func CheckExport(req *message.MonitorExportRequest) error {
	switch {
	case req.OnDisk && req.ServiceName != "":
		return apierror.Errorf(http.StatusBadRequest, "Cannot target journald and nomad log file simultaneously")
	case !req.OnDisk && req.ServiceName == "":
		return apierror.Errorf(http.StatusBadRequest, "Either -service-name or -on-disk must be set")
	case req.OnDisk && req.Follow:
		return apierror.Errorf(http.StatusBadRequest, "Cannot follow log file")
	case req.ServiceName != "":
		if err := checkUnit(req.ServiceName); err != nil {
			return err
		}
	}
	_, err := since(req.LogsSince)
	return err
}

// since parses the age of the oldest lines of a journal.
func since(text string) (time.Duration, error) {
	d, err := time.ParseDuration(cmp.Or(text, defaultSince))
	if err != nil || d < time.Second {
		return 0, apierror.Errorf(http.StatusBadRequest, "logs_since %q is not a duration of at least 1s, such as 72h", text)
	}
	return d, nil
}

// checkUnit returns an error for a name that is not a unit of this project.
func checkUnit(name string) error {
	unit, suffix := name, ""
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		unit, suffix = name[:i], name[i+1:]
	}
	switch {
	case len(name) > maxUnitName:
		return apierror.Errorf(http.StatusUnprocessableEntity, "service_name has %d bytes: at most %d are allowed", len(name), maxUnitName)
	case !strings.Contains(name, "nomad"):
		return apierror.Errorf(http.StatusUnprocessableEntity, "service_name %q must contain nomad", name)
	case suffix != "" && !slices.Contains(unitSuffixes, suffix):
		return apierror.Errorf(http.StatusUnprocessableEntity,
			"service_name %q has the suffix %q, which is not a type of a systemd unit such as service", name, suffix)
	case !unitName().MatchString(unit):
		return apierror.Errorf(http.StatusUnprocessableEntity, "service_name %q contains characters that a systemd unit cannot have", name)
	}
	return nil
}

// Export sends stored log lines, either of the agent's log file or of the journal. With Follow it
// ends with ctx.
func (s *Source) Export(ctx context.Context, req *message.MonitorExportRequest, to Sink) error {
	if err := CheckExport(req); err != nil {
		return err
	}
	select {
	case s.exports <- struct{}{}:
		defer func() { <-s.exports }()
	default:
		return apierror.Errorf(http.StatusTooManyRequests, "export the log: at most %d at the same time on one agent", maxExports)
	}
	out := output{req.PlainText, to}
	if req.OnDisk {
		return s.exportFile(ctx, out)
	}
	return s.exportJournal(ctx, req, out)
}

// exportFile sends the current log file, up to the size that it has now.
func (s *Source) exportFile(ctx context.Context, out output) error {
	if s.cfg.OpenLog == nil {
		return apierror.Errorf(http.StatusBadRequest, "No nomad log file defined: set log_file in the configuration of the agent")
	}
	f, err := s.cfg.OpenLog()
	if err != nil {
		return fmt.Errorf("export the log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("export the log: %w", err)
	case !info.Mode().IsRegular():
		return errors.New("export the log: log_file is not a regular file")
	}
	return out.copy(ctx, io.LimitReader(f, info.Size()))
}

// exportJournal sends the output of journalctl.
func (s *Source) exportJournal(ctx context.Context, req *message.MonitorExportRequest, out output) error {
	age, err := since(req.LogsSince)
	if err != nil {
		return err
	}
	args := []string{"-xu", req.ServiceName, "--since", fmt.Sprintf("%d seconds ago", int64(age/time.Second)), "--no-pager"}
	if req.Follow {
		args = append(args, "-f")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, s.cfg.Journalctl, args...)
	complaint := &firstbytes.Buffer{Limit: maxComplaint}
	cmd.Env, cmd.Dir, cmd.Stderr = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, "/", complaint
	cmd.WaitDelay = time.Second
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("export the journal: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("export the journal: %w", err)
	}
	failed := out.copy(ctx, lines)
	if failed != nil {
		stop()
	}
	err = cmd.Wait()
	switch {
	case failed != nil:
		return failed
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("export the journal: journalctl: %w: %s", err, complaint)
	}
	return nil
}

// copy sends what in contains until its end or the end of ctx.
func (o output) copy(ctx context.Context, in io.Reader) error {
	buf := make([]byte, maxFrame)
	for ctx.Err() == nil {
		n, err := in.Read(buf)
		if n > 0 {
			if err := o.send(bytes.Clone(buf[:n])); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("read the log: %w", err)
		}
	}
	return nil
}
