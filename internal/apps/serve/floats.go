package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"vsetrain/internal/files/jsontext"
)

// FloatArray is a JSON list of numbers, or a string: the bytes of little-endian float32 values in base64.
type FloatArray struct {
	Values []float32
	packed bool // written as a string
}

// MarshalJSON implements json.Marshaler.
func (f FloatArray) MarshalJSON() ([]byte, error) {
	if f.packed {
		raw := make([]byte, 0, 4*len(f.Values))
		for _, v := range f.Values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		out := append(make([]byte, 0, base64.StdEncoding.EncodedLen(len(raw))+2), '"')
		return append(base64.StdEncoding.AppendEncode(out, raw), '"'), nil
	}
	out := append(make([]byte, 0, 12*len(f.Values)+2), '[')
	for i, v := range f.Values {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendFloat(out, float64(v), 'g', -1, 32)
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *FloatArray) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		if len(b) == 0 || b[0] != '[' || bytes.Contains(b, []byte("null")) {
			return errors.New("expected a list of numbers, or float32 values in base64")
		}
		if err := json.Unmarshal(b, &f.Values); err != nil {
			return fmt.Errorf("expected a list of numbers of float32: %w", jsontext.Explain(err, b))
		}
		if len(f.Values) == 0 {
			return errors.New("expected numbers, found none")
		}
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return fmt.Errorf("expected float32 values in base64: %w", err)
	}
	if len(raw)%4 != 0 || len(raw) == 0 {
		return fmt.Errorf("expected float32 values in base64, found %d bytes; four are a value", len(raw))
	}
	f.Values = make([]float32, len(raw)/4)
	for i := range f.Values {
		v := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		if v-v != 0 {
			return fmt.Errorf("value %d is %v; expected finite numbers", i, v)
		}
		f.Values[i] = v
	}
	return nil
}
