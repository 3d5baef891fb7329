package fsm

import (
	"bufio"
	"fmt"
	"io"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// snapshotHandle is nomad.MsgpackHandle with two differences: maps are written
// in the order of their keys, so that equal states give equal bytes, and a
// codec.Raw is written as it is.
var snapshotHandle = func() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.RawToString = nomad.MsgpackHandle.RawToString
	h.TimeNotBuiltin = nomad.MsgpackHandle.TimeNotBuiltin
	h.MapType = nomad.MsgpackHandle.MapType
	h.TypeInfos = nomad.MsgpackHandle.TypeInfos
	h.Canonical = true
	h.Raw = true
	return h
}()

// RecordReader reads the records of a snapshot stream one after the other: Next,
// then Decode, until Next says io.EOF.
type RecordReader struct {
	buf   *bufio.Reader
	dec   *codec.Decoder
	types map[byte]state.Record
	at    state.Record // the record that Decode reads
	n     int
}

// NewRecordReader begins a stream: it reads the header.
func NewRecordReader(r io.Reader) (*RecordReader, error) {
	// The decoder reads byte by byte from the buffer and never past the end of a
	// value: the type byte that follows is ours.
	buf := bufio.NewReaderSize(r, 1<<20)
	in := &RecordReader{buf: buf, dec: codec.NewDecoder(buf, snapshotHandle), types: map[byte]state.Record{}}
	for _, rec := range state.Tables() {
		in.types[rec.Type] = rec
	}
	if err := in.dec.Decode(&nomad.SnapshotHeader{}); err != nil {
		return nil, fmt.Errorf("header: %w", midway(err))
	}
	return in, nil
}

// Next returns the type of the next record, io.EOF when the stream ends before
// one. A type outside the table is an error.
func (in *RecordReader) Next() (state.Record, error) {
	kind, err := in.buf.ReadByte()
	if err == io.EOF {
		return state.Record{}, io.EOF
	}
	in.n++
	if err != nil {
		return state.Record{}, fmt.Errorf("record %d: %w", in.n, err)
	}
	rec, known := in.types[kind]
	if !known {
		return state.Record{}, fmt.Errorf("unrecognized snapshot type %d at record %d: this version does not support it: upgrade this server, "+
			"or remove the feature on a server that supports it and save the snapshot again", kind, in.n)
	}
	in.at = rec
	return rec, nil
}

// Decode reads the record that Next announced into v; a codec.Raw takes any as
// it is.
func (in *RecordReader) Decode(v any) error {
	if err := in.dec.Decode(v); err != nil {
		return fmt.Errorf("record %d of type %d (%s): %w", in.n, in.at.Type, in.at.Name, midway(err))
	}
	return nil
}

// midway turns the end of the stream inside a value into an error of its own.
func midway(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// RecordWriter writes a snapshot stream.
type RecordWriter struct {
	buf *bufio.Writer
	enc *codec.Encoder
}

// NewRecordWriter returns a writer that is to be flushed at the end.
func NewRecordWriter(w io.Writer) *RecordWriter {
	buf := bufio.NewWriterSize(w, 1<<20)
	return &RecordWriter{buf, codec.NewEncoder(buf, snapshotHandle)}
}

// Header writes what every stream begins with.
func (out *RecordWriter) Header() error { return out.enc.Encode(&nomad.SnapshotHeader{}) }

// Write writes one record.
func (out *RecordWriter) Write(kind byte, row any) error {
	if err := out.buf.WriteByte(kind); err != nil {
		return err
	}
	return out.enc.Encode(row)
}

// Flush writes what is still held back.
func (out *RecordWriter) Flush() error { return out.buf.Flush() }
