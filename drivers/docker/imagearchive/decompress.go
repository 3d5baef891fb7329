package imagearchive

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/klauspost/compress/zstd"
)

// maxWindow limits the memory of a decompressor. It is that of the highest levels of xz and zstd.
const maxWindow = 128 << 20

// opener begins to decompress a stream.
type opener func(context.Context, io.Reader) (io.ReadCloser, error)

// compressions are the formats of compressed archives, by their first bytes.
var compressions = []struct {
	magic string
	open  opener
}{
	{"\x1f\x8b\x08", func(_ context.Context, r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	{"BZh", func(_ context.Context, r io.Reader) (io.ReadCloser, error) {
		return io.NopCloser(bzip2.NewReader(r)), nil
	}},
	{"\xfd7zXZ\x00", xz},
	{"\x28\xb5\x2f\xfd", func(_ context.Context, r io.Reader) (io.ReadCloser, error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}},
}

// decompress returns the content of a stream that may be compressed.
func decompress(ctx context.Context, from io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReader(from)
	for _, c := range compressions {
		if begin, err := in.Peek(len(c.magic)); err == nil && bytes.Equal(begin, []byte(c.magic)) {
			return c.open(ctx, in)
		}
	}
	return io.NopCloser(in), nil
}

// program is a running program whose output is read. Its end is part of the output.
type program struct {
	io.Reader
	cancel context.CancelFunc
	cmd    *exec.Cmd
	waited bool
}

// xz starts the program xz. The library for xz allocates as much memory as an archive asks for.
func xz(ctx context.Context, from io.Reader) (io.ReadCloser, error) {
	path, err := exec.LookPath("xz")
	if err != nil {
		return nil, fmt.Errorf("an archive with xz needs the program xz on the node: install xz-utils: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, path, "--decompress", "--stdout", "--quiet", "--no-adjust", "--threads=1",
		fmt.Sprintf("--memlimit-decompress=%d", maxWindow))
	cmd.Stdin, cmd.Env = from, []string{}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start xz: %w", err)
	}
	return &program{Reader: out, cancel: cancel, cmd: cmd}, nil
}

// Read implements io.Reader. It returns io.EOF only if the program has succeeded.
func (p *program) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if !errors.Is(err, io.EOF) || p.waited {
		return n, err
	}
	p.waited = true
	if werr := p.cmd.Wait(); werr != nil {
		return n, fmt.Errorf("xz: %w", werr)
	}
	return n, io.EOF
}

// Close ends the program.
func (p *program) Close() error {
	p.cancel()
	if !p.waited {
		p.waited = true
		p.cmd.Wait() //nolint:errcheck // it was ended
	}
	return nil
}
