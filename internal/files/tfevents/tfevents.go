// Package tfevents writes, reads and truncates TensorBoard event files.
//
// A file is a sequence of TFRecords, each
//
//	length (8 bytes, little-endian) · masked CRC32C of the length (4) · data · masked CRC32C of the data (4)
//
// where masked(c) = ((c >> 15) | (c << 17)) + 0xa282ead8 and data is an Event in protocol buffer encoding; the first
// event holds the file version. Source: tensorflow/core/lib/io/record_writer.cc, tensorflow/core/util/event.proto.
//
// Why not a TensorFlow library: nobody maintains one for Go.
package tfevents

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// Event is one entry of a file. A scalar has a tag and a value, the first event of a file has a file version, and a
// start has only a step.
type Event struct {
	Wall        time.Time // to the microsecond
	Step        int64
	FileVersion string // "brain.Event:2"
	Tag         string
	Value       float32
	HParams     map[string]any // settings of a run: bool, float64 or string, by name; read back as nil
	Start       bool           // a session begins at Step and replaces the events of earlier ones from there on
}

// hparamsTag is the tag of the event that holds the settings of a run (tensorboard/plugins/hparams/metadata.py).
const hparamsTag = "_hparams_/session_start_info"

// fileVersion is what TensorBoard expects in the first event.
const fileVersion = "brain.Event:2"

// Prefix begins the names of event files.
const Prefix = "events.out.tfevents."

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC returns the checksum of b as TFRecords store it.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// appendRecord appends data framed as a TFRecord.
func appendRecord(b, data []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b[start:start+8]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, maskedCRC(data))
}
