package contextfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// ErrNoPath means that no variable of the environment gives the path of the file.
var ErrNoPath = errors.New("no file for contexts: set HOME or NOMAD_CONTEXTS")

// Editor changes the text of the file.
type Editor struct {
	file *hclwrite.File // replaced by insertCurrent
	// File is the content before the edit.
	File *File
}

// Edit changes the file with edit, and writes it if the result is valid.
func Edit(path string, edit func(*Editor) error) error {
	if path == "" {
		return ErrNoPath
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link to a file in another directory stays a link
	}
	real, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	dir, err := safefs.Open(real)
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	defer dir.Close()
	if err := unix.Flock(dir.FD(), unix.LOCK_EX); err != nil { // until dir is closed
		return fmt.Errorf("lock %s: %w", real, err)
	}
	return editIn(dir, path, edit)
}

func editIn(dir *safefs.Dir, path string, edit func(*Editor) error) error {
	text, err := readPrivate(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read contexts: %w", err)
	}
	f, err := parse(path, text)
	if err != nil {
		return err
	}
	w, diags := hclwrite.ParseConfig(text, path, hcl.InitialPos)
	if diags.HasErrors() {
		return fmt.Errorf("read contexts: %w", diags)
	}
	e := &Editor{file: w, File: f}
	if err := edit(e); err != nil {
		return err
	}
	out := hclwrite.Format(e.file.Bytes())
	if _, err := parse(path, out); err != nil {
		return err
	}
	if err := dir.Replace(filepath.Base(path), out, safefs.File{Mode: 0o600, UID: -1, GID: -1}); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// Use sets the current context. The empty name means none.
func (e *Editor) Use(name string) error {
	if name == "" {
		e.file.Body().RemoveAttribute("current")
		return nil
	}
	if _, err := e.File.Context(name); err != nil && e.file.Body().FirstMatchingBlock("context", []string{name}) == nil {
		return err
	}
	if e.file.Body().GetAttribute("current") == nil && len(e.file.Body().Blocks()) > 0 {
		return e.insertCurrent(name)
	}
	e.file.Body().SetAttributeValue("current", cty.StringVal(name))
	return nil
}

// insertCurrent writes current before the blocks of the file, where a reader expects it.
func (e *Editor) insertCurrent(name string) error {
	head := hclwrite.NewEmptyFile()
	head.Body().SetAttributeValue("current", cty.StringVal(name))
	text := append(append(head.Bytes(), '\n'), e.file.Bytes()...)
	w, diags := hclwrite.ParseConfig(text, "contexts", hcl.InitialPos)
	if diags.HasErrors() {
		return fmt.Errorf("write contexts: %w", diags)
	}
	e.file = w
	return nil
}

// Value is a new value of an attribute: a string or a list, or nothing, which removes it.
type Value struct {
	Text string
	List []string
}

// Set changes attributes of a context, and adds it if it does not exist.
func (e *Editor) Set(name string, values map[string]Value, order []string) {
	body := e.file.Body()
	block := body.FirstMatchingBlock("context", []string{name})
	if block == nil {
		if len(body.Attributes())+len(body.Blocks()) > 0 {
			body.AppendNewline()
		}
		block = body.AppendNewBlock("context", []string{name})
	}
	for _, attr := range order {
		v, given := values[attr]
		switch {
		case !given:
		case len(v.List) > 0:
			list := make([]cty.Value, len(v.List))
			for i, s := range v.List {
				list[i] = cty.StringVal(s)
			}
			block.Body().SetAttributeValue(attr, cty.ListVal(list))
		case v.Text != "":
			block.Body().SetAttributeValue(attr, cty.StringVal(v.Text))
		default:
			block.Body().RemoveAttribute(attr)
		}
	}
}

// Delete removes a context. If it is the current one, no context is current.
func (e *Editor) Delete(name string) error {
	if _, err := e.File.Context(name); err != nil {
		return err
	}
	e.file.Body().RemoveBlock(e.file.Body().FirstMatchingBlock("context", []string{name}))
	if e.File.Current == name {
		e.file.Body().RemoveAttribute("current")
	}
	return nil
}
