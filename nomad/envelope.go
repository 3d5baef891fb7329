package nomad

// Query returns the query options of a read request. Every request that embeds
// QueryOptions has it, so that a table can fill them without knowing the type.
func (q *QueryOptions) Query() *QueryOptions { return q }

// Write returns the write options of a write request, as Query does for reads.
func (w *WriteRequest) Write() *WriteRequest { return w }

// ReadMeta returns the metadata of a reply to a read.
func (m *QueryMeta) ReadMeta() *QueryMeta { return m }

// WrittenMeta returns the metadata of a reply to a write.
func (m *WriteMeta) WrittenMeta() *WriteMeta { return m }
