package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/command/agent/config/decode"
)

// Settings is a Config with the place where each key was set, for error messages.
type Settings struct {
	Config
	Dev bool // the agent was started with -dev

	connect    bool // with -dev-connect
	introToken string
	adoptNone  bool
	names      []string // the host names in the configured addresses
	set        map[string]decode.Place

	otherMachine bool     // missing certificate files are warnings
	missing      []string // warnings about missing files, with otherMachine
}

// Default returns the default configuration.
func Default() *Settings {
	s := &Settings{set: map[string]decode.Place{}}
	decode.SetDefaults(reflect.ValueOf(&s.Config).Elem())
	return s
}

// load decodes files into the settings, in order. For a directory it reads all *.hcl and *.json
// files, sorted. The error contains every error of every file with its place.
func (s *Settings) load(paths ...string) error {
	var errs []error
	for _, path := range paths {
		files, err := expand(path)
		if err != nil {
			errs = append(errs, err)
		}
		for _, file := range files {
			errs = append(errs, s.loadFile(file))
		}
	}
	return errors.Join(errs...)
}

// expand returns the configuration files of a path.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var files []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !e.IsDir() && (ext == ".hcl" || ext == ".json") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}

func (s *Settings) loadFile(path string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return s.parse(src, path)
}

// parse decodes one file into the settings.
func (s *Settings) parse(src []byte, name string) error {
	before := map[string]string{}
	for label, p := range s.Plugin {
		before[label] = p.Backend
	}
	err := decode.File(src, name, reflect.ValueOf(&s.Config).Elem(), s.set)
	return errors.Join(err, s.sameBackends(before))
}

// sameBackends returns an error if a file sets another backend for the plugin block of an earlier
// file. Files merge, but these are two drivers with one name.
func (s *Settings) sameBackends(before map[string]string) error {
	var errs []error
	for _, label := range slices.Sorted(maps.Keys(before)) {
		if was, now := before[label], s.Plugin[label].Backend; was != "" && was != now {
			errs = append(errs, s.Fault("plugin."+label+".backend", "an earlier file sets the backend %q for this label: rename one of the blocks",
				was))
		}
	}
	return errors.Join(errs...)
}

// setFlag sets a key from a flag. path is the path of the key, such as "client.node_class". Of blocks that are merged by
// name it sets the default one.
func (s *Settings) setFlag(flag, path, text string) error {
	block := reflect.ValueOf(&s.Config).Elem()
	steps := strings.Split(path, ".")
	for i, key := range steps {
		at := slices.IndexFunc(decode.Fields(block), func(f decode.Field) bool { return f.Key == key })
		f := decode.Fields(block)[at]
		if i < len(steps)-1 {
			if block = f.Value; f.Mode == "byname" {
				block = decode.ByName(block, "").Elem()
			}
			continue
		}
		if err := decode.SetText(f.Value, text); err != nil {
			return fmt.Errorf("flag -%s: %w", flag, err)
		}
	}
	s.set[path] = decode.Place{File: "flag -" + flag}
	return nil
}

// place returns where a key was set, as a prefix of messages.
func (s *Settings) place(path string) string {
	at, ok := s.set[path]
	switch {
	case !ok:
		return ""
	case at.Line == 0:
		return at.File + ": "
	}
	return fmt.Sprintf("%s:%d: ", at.File, at.Line)
}
