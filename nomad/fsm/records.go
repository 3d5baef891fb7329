package fsm

import (
	"bufio"
	"fmt"
	"io"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// snapshotHandle is codec.MsgpackHandle with two differences. Map keys are sorted, so that
// equal states give equal bytes. A msgpack.Raw is written unchanged.
var snapshotHandle = func() *msgpack.MsgpackHandle {
	h := &msgpack.MsgpackHandle{}
	h.RawToString = codec.MsgpackHandle.RawToString
	h.TimeNotBuiltin = codec.MsgpackHandle.TimeNotBuiltin
	h.MapType = codec.MsgpackHandle.MapType
	h.TypeInfos = codec.MsgpackHandle.TypeInfos
	h.Canonical = true
	h.Raw = true
	return h
}()

// RecordReader reads the records of a snapshot stream. Call Next and Decode in turn until Next
// returns io.EOF.
type RecordReader struct {
	buf   *bufio.Reader
	dec   *msgpack.Decoder
	types map[byte]state.Record
	at    state.Record // the record that Decode reads
	n     int
}

// NewRecordReader reads the header of a stream.
func NewRecordReader(r io.Reader) (*RecordReader, error) {
	// The decoder must not read past the end of a value, because the next byte is the type of
	// the next record.
	buf := bufio.NewReaderSize(r, 1<<20)
	in := &RecordReader{buf: buf, dec: msgpack.NewDecoder(buf, snapshotHandle), types: map[byte]state.Record{}}
	for _, rec := range state.Tables() {
		in.types[rec.Type] = rec
	}
	if err := in.dec.Decode(&nomad.SnapshotHeader{}); err != nil {
		return nil, fmt.Errorf("header: %w", midway(err))
	}
	return in, nil
}

// Next returns the type of the next record, or io.EOF at the end of the stream. An unknown type
// is an error.
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

// Decode decodes the record that Next returned into v. A msgpack.Raw receives the raw bytes.
func (in *RecordReader) Decode(v any) error {
	if err := in.dec.Decode(v); err != nil {
		return fmt.Errorf("record %d of type %d (%s): %w", in.n, in.at.Type, in.at.Name, midway(err))
	}
	return nil
}

// midway converts an end of the stream inside a value into io.ErrUnexpectedEOF.
func midway(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// RecordWriter writes a snapshot stream.
type RecordWriter struct {
	buf *bufio.Writer
	enc *msgpack.Encoder
}

// NewRecordWriter returns a writer. The caller must call Flush at the end.
func NewRecordWriter(w io.Writer) *RecordWriter {
	buf := bufio.NewWriterSize(w, 1<<20)
	return &RecordWriter{buf, msgpack.NewEncoder(buf, snapshotHandle)}
}

// Header writes the header of the stream.
func (out *RecordWriter) Header() error { return out.enc.Encode(&nomad.SnapshotHeader{}) }

// Write writes one record.
func (out *RecordWriter) Write(kind byte, row any) error {
	if err := out.buf.WriteByte(kind); err != nil {
		return err
	}
	return out.enc.Encode(row)
}

// Flush writes buffered data.
func (out *RecordWriter) Flush() error { return out.buf.Flush() }
