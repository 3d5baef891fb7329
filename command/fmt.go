package command

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/jobspec"
)

func split(list string) []string { return strings.Split(list, "|") }

// maxFile is the maximum size of standard input, in bytes.
const maxFile = 32 << 20

// formatter holds the flags of fmt.
type formatter struct{ check, list, write, recursive bool }

func fmtCommand() term.Command {
	return term.Command{
		Name: "fmt", Args: "[path...]", MaxArgs: -1,
		Short: "Rewrite HCL files in the canonical style",
		Long: "Formats HCL files. Of a directory (default: the current one) it formats the *.hcl and *.nomad files. With - it\n" +
			"formats standard input.",
		Setup: func(f *term.Flags) term.Run {
			o := &formatter{}
			f.BoolVar(&o.check, "check", false, "Do not write files. Exit with 1 if a file is not formatted.")
			f.BoolVar(&o.list, "list", true, "Print the names of files that are not formatted.")
			f.BoolVar(&o.write, "write", true, "Write the files.")
			f.BoolVar(&o.recursive, "recursive", false, "Format the files in subdirectories too.")
			return o.run
		},
	}
}

func (o *formatter) run(_ context.Context, e *term.Env) error {
	if e.Arg(0) == "-" {
		return o.stdin(e)
	}
	paths := e.Args
	if len(paths) == 0 {
		paths = []string{"."}
	}
	changed := false
	for _, p := range paths {
		files, err := o.files(p)
		if err != nil {
			return fmt.Errorf("Error reading %s: %w", p, err)
		}
		for _, name := range files {
			c, err := o.file(e, name)
			if err != nil {
				return err
			}
			changed = changed || c
		}
	}
	if o.check && changed {
		return term.Exit(1)
	}
	return nil
}

func (o *formatter) stdin(e *term.Env) error {
	in, err := e.Input("-", maxFile)
	if err != nil {
		return err
	}
	out, err := jobspec.Format("<stdin>", in)
	if err != nil {
		return err
	}
	if o.check && !bytes.Equal(in, out) {
		return term.Exit(1)
	}
	_, err = e.Out.Write(out)
	return err
}

// files returns the file p, or the files in the directory p.
func (o *formatter) files(p string) ([]string, error) {
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{p}, nil
	}
	var out []string
	err = filepath.WalkDir(p, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != p && (!o.recursive || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case !d.IsDir() && (strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".nomad")):
			out = append(out, name)
		}
		return nil
	})
	return out, err
}

// file formats one file and reports whether it was not formatted.
func (o *formatter) file(e *term.Env, name string) (bool, error) {
	in, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	out, err := jobspec.Format(name, in)
	if err != nil || bytes.Equal(in, out) {
		return false, err
	}
	if o.list {
		e.Println(name)
	}
	if !o.write || o.check {
		return true, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return true, err
	}
	return true, os.WriteFile(name, out, info.Mode().Perm())
}
