package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
)

// Settings is a Config with the places that its keys were set at, for errors.
type Settings struct {
	Config
	dev        bool
	introToken string
	set        map[string]hcl.Range
}

// Default returns the configuration before any file and flag.
func Default() *Settings {
	s := &Settings{set: map[string]hcl.Range{}}
	setDefaults(reflect.ValueOf(&s.Config).Elem())
	return s
}

// Load writes files over the settings, in order; of a directory all *.hcl and
// *.json files, sorted. Every fault of every file is told, with its place.
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

// parse writes one file over the settings.
func (s *Settings) parse(src []byte, name string) error {
	parser := hclparse.NewParser()
	isJSON := filepath.Ext(name) == ".json"
	parseFile := parser.ParseHCL
	if isJSON {
		parseFile = parser.ParseJSON
	}
	file, diags := parseFile(src, name)
	if diags.HasErrors() {
		return faults(diags, src)
	}
	d := &decoder{json: isJSON, set: map[string]hcl.Range{}}
	diags = d.block(file.Body, reflect.ValueOf(&s.Config).Elem(), "")
	maps.Copy(s.set, d.set)
	return faults(diags, src)
}

// faults makes one error of all diagnostics: file, line, column, what is wrong, and
// the line itself up to its value, which may be a secret.
func faults(diags hcl.Diagnostics, src []byte) error {
	lines := strings.Split(string(src), "\n")
	var errs []error
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		if d.Subject == nil {
			errs = append(errs, fmt.Errorf("%s: %s", d.Summary, d.Detail))
			continue
		}
		at := d.Subject.Start
		text := fmt.Sprintf("%s:%d,%d: %s: %s", d.Subject.Filename, at.Line, at.Column, d.Summary, d.Detail)
		if at.Line > 0 && at.Line <= len(lines) {
			text += "\n    " + shown(lines[at.Line-1])
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// shown returns a line of a file without the value in it.
func shown(line string) string {
	before, _, value := strings.Cut(strings.TrimSpace(line), "=")
	if value {
		return before + "= ..."
	}
	return before
}

// setFlag sets a key by its path, such as "client.node_class", from a flag.
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
	s.set[path] = hcl.Range{Filename: "flag -" + flag}
	return nil
}

// place says where a key was set.
func (s *Settings) place(path string) string {
	r, ok := s.set[path]
	switch {
	case !ok:
		return ""
	case r.Start.Line == 0:
		return r.Filename + ": "
	}
	return fmt.Sprintf("%s:%d: ", r.Filename, r.Start.Line)
}
