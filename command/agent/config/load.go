package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Settings is a Config with the place where each key was set, for error messages.
type Settings struct {
	Config
	Dev bool // the agent was started with -dev

	introToken string
	adoptNone  bool
	names      []string // the host names in the configured addresses
	set        map[string]place

	otherMachine bool     // missing certificate files are warnings
	missing      []string // warnings about missing files, with otherMachine
}

// Default returns the default configuration.
func Default() *Settings {
	s := &Settings{set: map[string]place{}}
	setDefaults(reflect.ValueOf(&s.Config).Elem())
	return s
}

// Load decodes files into the settings, in order. For a directory it reads all *.hcl and *.json
// files, sorted. The error contains every error of every file with its place.
func (s *Settings) Load(paths ...string) error {
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

// parse decodes one file into the settings. A file that begins with a brace is JSON, whatever its
// name.
func (s *Settings) parse(src []byte, name string) error {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	read := parseHCL
	if filepath.Ext(name) == ".json" || bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		read = parseJSON
	}
	v, wrong := read(src, name)
	d := &decoder{set: s.set, faults: wrong}
	d.block(v, reflect.ValueOf(&s.Config).Elem(), "")
	return faults(d.faults, src)
}

// setFlag sets a key from a flag. path is the path of the key, such as "client.node_class".
func (s *Settings) setFlag(flag, path, text string) error {
	block := reflect.ValueOf(&s.Config).Elem()
	steps := strings.Split(path, ".")
	for i, key := range steps {
		at := slices.IndexFunc(fields(block), func(f field) bool { return f.key == key })
		f := fields(block)[at]
		if i < len(steps)-1 {
			block = f.value
			continue
		}
		if err := setText(f.value, text); err != nil {
			return fmt.Errorf("flag -%s: %w", flag, err)
		}
	}
	s.set[path] = place{file: "flag -" + flag}
	return nil
}

// place returns where a key was set, as a prefix of messages.
func (s *Settings) place(path string) string {
	at, ok := s.set[path]
	switch {
	case !ok:
		return ""
	case at.line == 0:
		return at.file + ": "
	}
	return fmt.Sprintf("%s:%d: ", at.file, at.line)
}
