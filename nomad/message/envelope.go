package message

// Query returns the query options of a read request. All types that embed QueryOptions inherit it, so that
// generic code can set the options.
func (q *QueryOptions) Query() *QueryOptions { return q }

// Write returns the write options of a write request. It corresponds to Query.
func (w *WriteRequest) Write() *WriteRequest { return w }

// ReadMeta returns the metadata of a reply to a read.
func (m *QueryMeta) ReadMeta() *QueryMeta { return m }

// WrittenMeta returns the metadata of a reply to a write.
func (m *WriteMeta) WrittenMeta() *WriteMeta { return m }
