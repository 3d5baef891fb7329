package config

import (
	"errors"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/internal/fetch"
)

// checkArtifact checks the client.artifact block.
func (s *Settings) checkArtifact() error {
	const path = "client.artifact."
	a := &s.Client.Artifact
	var errs []error
	for key, t := range map[string]time.Duration{"http_read_timeout": a.HTTPReadTimeout, "gcs_timeout": a.GCSTimeout,
		"git_timeout": a.GitTimeout,
		"hg_timeout":  a.HgTimeout, "s3_timeout": a.S3Timeout} {
		if t <= 0 {
			errs = append(errs, s.Fault(path+key, "must be above 0"))
		}
	}
	for key, text := range map[string]string{"http_max_size": a.HTTPMaxSize, "decompression_size_limit": a.DecompressionSizeLimit,
		"cache_size": a.CacheSize} {
		if _, err := sizeOrZero(text); err != nil {
			errs = append(errs, s.Fault(path+key, "%v", err))
		}
	}
	if a.DecompressionFileCountLimit < 0 {
		errs = append(errs, s.Fault(path+"decompression_file_count_limit", "must not be negative"))
	}
	for _, text := range a.FilesystemIsolationExtraPaths {
		if _, err := artifact.ParseExtraPath(text); err != nil {
			errs = append(errs, s.Fault(path+"filesystem_isolation_extra_paths", "%v", err))
		}
	}
	for _, name := range a.environment() {
		if strings.Contains(name, "=") {
			errs = append(errs, s.Fault(path+"set_environment_variables", "%q is not the name of a variable", name))
		}
	}
	return errors.Join(errs...)
}

// sizeOrZero parses a size, of which 0 has a special meaning.
func sizeOrZero(text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	return parseSize(text)
}

// environment returns the names of set_environment_variables.
func (a *Artifact) environment() []string {
	return strings.FieldsFunc(a.SetEnvironmentVariables, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// artifactConfig returns the configuration of artifact downloads.
func (s *Settings) artifactConfig() (artifact.Config, error) {
	a := &s.Client.Artifact
	download, err1 := sizeOrZero(a.HTTPMaxSize)
	unpacked, err2 := sizeOrZero(a.DecompressionSizeLimit)
	cache, err3 := sizeOrZero(a.CacheSize)
	if err := errors.Join(err1, err2, err3); err != nil {
		return artifact.Config{}, err
	}
	cfg := artifact.Config{
		Limits:     fetch.Limits{Download: download, Unpacked: unpacked, Files: a.DecompressionFileCountLimit},
		Timeouts:   fetch.Timeouts{HTTP: a.HTTPReadTimeout, Git: a.GitTimeout, Hg: a.HgTimeout, GCS: a.GCSTimeout, S3: a.S3Timeout},
		KeepLinks:  a.DisableArtifactInspection,
		Unconfined: a.DisableFilesystemIsolation,
		Env:        map[string]string{},
		CacheSize:  cache,
	}
	for _, text := range a.FilesystemIsolationExtraPaths {
		p, err := artifact.ParseExtraPath(text)
		if err != nil {
			return artifact.Config{}, err
		}
		cfg.ExtraPaths = append(cfg.ExtraPaths, p)
	}
	for _, name := range a.environment() {
		cfg.Env[name] = os.Getenv(name)
	}
	return cfg, nil
}
