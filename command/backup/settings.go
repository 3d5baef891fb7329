package backup

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsimple"

	"github.com/open-nomad/open-nomad/api"
)

// Settings are the settings from a configuration file and flags.
type Settings struct {
	Interval, Timeout time.Duration
	Retain            int
	Dir, Prefix       string
	Stale             bool
	LogLevel          string
	LogJSON           bool

	// Server is the API address and credentials of the file, nil without a nomad block.
	Server *Server
}

// Defaults returns the default settings.
func Defaults() Settings {
	return Settings{Interval: time.Hour, Timeout: 10 * time.Minute, Retain: 30, Dir: ".", Prefix: "nomad", LogLevel: "info"}
}

// Server is the nomad block: the address of the API and the credentials.
type Server struct {
	Address       string `hcl:"address,optional"`
	Region        string `hcl:"region,optional"`
	Token         string `hcl:"token,optional"`
	CAFile        string `hcl:"ca_file,optional"`
	CAPath        string `hcl:"ca_path,optional"`
	CertFile      string `hcl:"cert_file,optional"`
	KeyFile       string `hcl:"key_file,optional"`
	TLSServerName string `hcl:"tls_server_name,optional"`
}

// Apply sets the fields of the API configuration that the block has.
func (s *Server) Apply(c *api.Config) {
	if s == nil {
		return
	}
	for to, v := range map[*string]string{&c.Address: s.Address, &c.Region: s.Region, &c.SecretID: s.Token, &c.TLSConfig.CACert: s.CAFile,
		&c.TLSConfig.CAPath:     s.CAPath,
		&c.TLSConfig.ClientCert: s.CertFile, &c.TLSConfig.ClientKey: s.KeyFile, &c.TLSConfig.TLSServerName: s.TLSServerName} {
		if v != "" {
			*to = v
		}
	}
}

// file is the schema of a configuration file.
type file struct {
	Nomad    *Server `hcl:"nomad,block"`
	Snapshot *struct {
		Interval *string `hcl:"interval,optional"`
		Timeout  *string `hcl:"timeout,optional"`
		Retain   *int    `hcl:"retain,optional"`
		Stale    *bool   `hcl:"stale,optional"`
		Prefix   *string `hcl:"prefix,optional"`
	} `hcl:"snapshot,block"`
	Local *struct {
		Path *string `hcl:"path,optional"`
	} `hcl:"local_storage,block"`
	Log *struct {
		Level *string `hcl:"level,optional"`
		JSON  *bool   `hcl:"json,optional"`
	} `hcl:"log,block"`

	AWS    *other `hcl:"aws_storage,block"`
	Azure  *other `hcl:"azure_blob_storage,block"`
	Google *other `hcl:"google_storage,block"`
	Consul *other `hcl:"consul,block"`
}

// other is a block that this agent does not support.
type other struct {
	Rest hcl.Body `hcl:",remain"`
}

// ReadFile applies a configuration file (.hcl or .json). Its errors contain no values.
func (s *Settings) ReadFile(path string) error {
	var f file
	if err := hclsimple.DecodeFile(path, nil, &f); err != nil {
		return fmt.Errorf("read the configuration of the snapshot agent: %w", err)
	}
	for name, block := range map[string]*other{"aws_storage": f.AWS, "azure_blob_storage": f.Azure, "google_storage": f.Google,
		"consul": f.Consul} {
		if block != nil {
			return fmt.Errorf("%s: %s: not part of this version: snapshots are kept in local_storage only", path, name)
		}
	}
	s.Server = f.Nomad
	if f.Nomad != nil && f.Nomad.Token != "" {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s has a token and other users can read it: chmod 600 it, or set NOMAD_TOKEN instead", path)
		}
	}
	if f.Local != nil {
		set(&s.Dir, f.Local.Path)
	}
	if f.Log != nil {
		set(&s.LogLevel, f.Log.Level)
		set(&s.LogJSON, f.Log.JSON)
	}
	if f.Snapshot == nil {
		return nil
	}
	set(&s.Retain, f.Snapshot.Retain)
	set(&s.Stale, f.Snapshot.Stale)
	set(&s.Prefix, f.Snapshot.Prefix)
	for name, v := range map[string]struct {
		to   *time.Duration
		text *string
	}{"interval": {&s.Interval, f.Snapshot.Interval}, "timeout": {&s.Timeout, f.Snapshot.Timeout}} {
		if v.text == nil {
			continue
		}
		d, err := time.ParseDuration(*v.text)
		if err != nil {
			return fmt.Errorf("%s: snapshot.%s: %w", path, name, err)
		}
		*v.to = d
	}
	return nil
}

func set[T any](to, v *T) {
	if v != nil {
		*to = *v
	}
}

// Logger returns a logger to w with the level and format of the settings.
func (s *Settings) Logger(w *os.File) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, fmt.Errorf("log level %q: expected debug, info, warn or error", s.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	if s.LogJSON {
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), nil
}
