/* Constructors of AMQP 1.0 values (part 1.6), for reading and writing. */
#ifndef QUIVER_AMQP_CONSTRUCTORS_H
#define QUIVER_AMQP_CONSTRUCTORS_H

enum constructor {
  DESCRIBED = 0x00,
  NULL_ = 0x40,
  TRUE_ = 0x41,
  FALSE_ = 0x42,
  UINT0 = 0x43,
  ULONG0 = 0x44,
  LIST0 = 0x45,
  UBYTE = 0x50,
  SMALL_UINT = 0x52,
  SMALL_ULONG = 0x53,
  SMALL_LONG = 0x55,
  BOOLEAN = 0x56,
  USHORT = 0x60,
  UINT = 0x70,
  ULONG = 0x80,
  LONG = 0x81,
  TIMESTAMP = 0x83,
  BINARY8 = 0xa0,
  STRING8 = 0xa1,
  SYMBOL8 = 0xa3,
  BINARY32 = 0xb0,
  STRING32 = 0xb1,
  SYMBOL32 = 0xb3,
  LIST8 = 0xc0,
  LIST32 = 0xd0,
  MAP8 = 0xc1,
  MAP32 = 0xd1,
  ARRAY8 = 0xe0,
  ARRAY32 = 0xf0,
};

#endif
