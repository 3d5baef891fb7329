package alloc

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func fsCommand() term.Command {
	return term.Command{
		Name: "alloc fs", Alias: []string{"fs"}, Args: "<allocation> [path]", MinArgs: 1, MaxArgs: 2,
		Short: "Show the files of an allocation",
		Long:  "Lists a directory or prints a file of an allocation. The path is relative to the allocation directory.",
		Setup: func(f *term.Flags) term.Run {
			o := &files{}
			o.declare(f)
			f.BoolVar(&o.stat, "stat", false, "Show the file's metadata instead of its content.")
			f.BoolVar(&o.bytesize, "H", false, "Show sizes in bytes.")
			f.Bool("verbose", false, "Show full IDs.")
			return o.run
		},
	}
}

type files struct {
	reading
	stat, bytesize bool
}

func (o *files) run(ctx context.Context, e *term.Env) error {
	path := e.Arg(1)
	if path == "" {
		path = "/"
	}
	at, err := o.alloc(ctx, e)
	if err != nil {
		return err
	}
	c, a := at.client, at.alloc
	info, _, err := c.AllocFS().Stat(a, path, query(ctx, a))
	switch {
	case err != nil:
		return fmt.Errorf("Error reading %q: %w", path, err)
	case o.stat:
		e.Println(o.list([]*api.AllocFileInfo{info}))
		return nil
	case info.IsDir:
		entries, _, err := c.AllocFS().List(a, path, query(ctx, a))
		if err != nil {
			return fmt.Errorf("Error listing %q: %w", path, err)
		}
		e.Println(o.list(entries))
		return nil
	}
	return o.print(ctx, e, at, path)
}

func (o *files) list(infos []*api.AllocFileInfo) string {
	rows := []string{"Mode|Size|Modified Time|Name"}
	for _, f := range infos {
		name, size := f.Name, term.Bytes(uint64(f.Size))
		if o.bytesize {
			size = strconv.FormatInt(f.Size, 10)
		}
		if f.IsDir {
			name += "/"
		}
		rows = append(rows, term.Row(f.FileMode, size, term.Time(f.ModTime), name))
	}
	return term.Table(rows)
}

func (o *files) print(ctx context.Context, e *term.Env, at found, path string) error {
	c, a := at.client, at.alloc
	origin, offset := o.start()
	var in io.ReadCloser
	var err error
	if o.follow {
		cancel := make(chan struct{})
		frames, errs := c.AllocFS().Stream(a, path, origin, offset, cancel, query(ctx, a))
		in = api.NewFrameReader(frames, errs, cancel)
	} else if origin == api.OriginStart {
		in, err = c.AllocFS().Cat(a, path, query(ctx, a))
	} else {
		in, err = at.tail(ctx, path, offset)
	}
	if err != nil {
		return fmt.Errorf("Error reading %q: %w", path, err)
	}
	defer in.Close()
	if err := o.copy(e, in); err != nil && ctx.Err() == nil {
		return fmt.Errorf("Error reading %q: %w", path, err)
	}
	return nil
}

// tail returns a reader for the last n bytes of a file.
func (f found) tail(ctx context.Context, path string, n int64) (io.ReadCloser, error) {
	a := f.alloc
	info, _, err := f.client.AllocFS().Stat(a, path, query(ctx, a))
	if err != nil {
		return nil, err
	}
	return f.client.AllocFS().ReadAt(a, path, max(0, info.Size-n), 0, query(ctx, a))
}
