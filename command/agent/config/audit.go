package config

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
	"github.com/open-nomad/open-nomad/nomad/audit"
)

// Audit is the audit block.
type Audit struct {
	Enabled bool                    `hcl:"enabled"`
	Sink    map[string]*AuditSink   `hcl:"sink,label"`
	Filter  map[string]*AuditFilter `hcl:"filter,label"`
}

// AuditSink is the audit.sink block.
type AuditSink struct {
	Type              string        `hcl:"type" default:"file"`
	Format            string        `hcl:"format" default:"json"`
	DeliveryGuarantee string        `hcl:"delivery_guarantee" default:"enforced"`
	Path              string        `hcl:"path"`
	RotateDuration    time.Duration `hcl:"rotate_duration" default:"24h"`
	RotateBytes       int           `hcl:"rotate_bytes"`
	RotateMaxFiles    int           `hcl:"rotate_max_files"`
	Mode              string        `hcl:"mode" default:"0600"`
}

// AuditFilter is the audit.filter block.
type AuditFilter struct {
	Type       string   `hcl:"type"`
	Endpoints  []string `hcl:"endpoints"`
	Stages     []string `hcl:"stages"`
	Operations []string `hcl:"operations"`
}

// Delivery guarantees of an audit sink.
const (
	auditEnforced   = "enforced"
	auditBestEffort = "best-effort"
)

// checkAudit checks the audit block.
func (s *Settings) checkAudit() error {
	var errs []error
	if n := len(s.Audit.Sink); n > 1 {
		errs = append(errs, s.Fault("audit.sink", "at most one sink is allowed, got %d", n))
	}
	for name, sink := range s.Audit.Sink {
		errs = append(errs, s.checkSink("audit.sink."+name+".", sink))
	}
	for name, f := range s.Audit.Filter {
		if err := f.filter().Check(); err != nil {
			errs = append(errs, s.Fault("audit.filter."+name, "%v", err))
		}
	}
	return errors.Join(errs...)
}

func (s *Settings) checkSink(path string, sink *AuditSink) error {
	var errs []error
	if sink.Type != "file" {
		errs = append(errs, s.Fault(path+"type", "unknown type %q: use file", sink.Type))
	}
	if sink.Format != "json" {
		errs = append(errs, s.Fault(path+"format", "unknown format %q: use json", sink.Format))
	}
	if g := sink.DeliveryGuarantee; g != auditEnforced && g != auditBestEffort {
		errs = append(errs, s.Fault(path+"delivery_guarantee", "must be enforced or best-effort, not %q", g))
	}
	if p := sink.Path; p != "" && (!filepath.IsAbs(p) || strings.HasSuffix(p, "/")) {
		errs = append(errs, s.Fault(path+"path", "must be an absolute path of a file, not %q", p))
	}
	for key, n := range map[string]int{"rotate_duration": int(sink.RotateDuration), "rotate_bytes": sink.RotateBytes,
		"rotate_max_files": sink.RotateMaxFiles} {
		if n < 0 {
			errs = append(errs, s.Fault(path+key, "must not be negative; 0 means no limit"))
		}
	}
	if _, ok := fileMode(sink.Mode); !ok {
		errs = append(errs, s.Fault(path+"mode", "must be 0600, 0640 or 0644, not %q: only the owner may write an audit log", sink.Mode))
	}
	return errors.Join(errs...)
}

// fileMode parses an octal file mode. It allows only modes in which no one but the owner can
// write.
func fileMode(text string) (fs.FileMode, bool) {
	n, err := strconv.ParseUint(text, 8, 32)
	mode := fs.FileMode(n)
	return mode, err == nil && slices.Contains([]fs.FileMode{0o600, 0o640, 0o644}, mode)
}

func (f *AuditFilter) filter() audit.Filter {
	return audit.Filter{Type: f.Type, Endpoints: f.Endpoints, Stages: f.Stages, Operations: f.Operations}
}

// AuditConfig returns the configuration of the audit log, or nil if it is disabled. dir is the
// data directory of the agent.
func (s *Settings) AuditConfig(dir string) *audit.Config {
	if !s.Audit.Enabled {
		return nil
	}
	sink := decode.NewBlock(reflect.TypeFor[*AuditSink]()).Interface().(*AuditSink)
	for _, one := range s.Audit.Sink {
		sink = one
	}
	mode, _ := fileMode(sink.Mode) // checked by checkSink
	c := &audit.Config{Path: filepath.Clean(sink.Path), Mode: mode, Enforced: sink.DeliveryGuarantee == auditEnforced,
		RotateEvery: sink.RotateDuration, RotateBytes: int64(sink.RotateBytes), Keep: sink.RotateMaxFiles}
	if sink.Path == "" {
		c.Path, c.OwnDir = filepath.Join(dir, "audit", "audit.log"), true
	}
	for _, name := range slices.Sorted(maps.Keys(s.Audit.Filter)) {
		c.Filters = append(c.Filters, s.Audit.Filter[name].filter())
	}
	return c
}
